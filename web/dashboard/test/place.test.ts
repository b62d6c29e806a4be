import { expect, test } from "vitest";
import { placeOf } from "../src/place";

const PAGES = { "": "overview", players: "players" };

test("an address names a page and one of its things", () => {
  expect(placeOf("", PAGES)).toEqual({ name: "", parameter: "", page: "overview" });
  expect(placeOf("#/players/a%2Fb/c", PAGES)).toEqual({ name: "players", parameter: "a/b/c", page: "players" });
});

test("an address that nothing has is no page", () => {
  for (const hash of ["#/players/%", "#/constructor", "#/__proto__", "#/nothing"]) {
    expect(placeOf(hash, PAGES).page).toBeUndefined();
  }
});
