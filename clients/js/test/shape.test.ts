/** What must stay true of the sources themselves. */

import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { VERSION } from "../src/version.js";

const sources = new URL("../src/", import.meta.url);
const source = (name: string) => readFileSync(new URL(name, sources), "utf8");

const PURE = [
  "asks.ts",
  "backoff.ts",
  "channel.ts",
  "channels.ts",
  "codec.ts",
  "errors.ts",
  "events.ts",
  "frames.ts",
  "limits.ts",
  "msgpack.ts",
  "protocol.ts",
  "reasons.ts",
  "saved.ts",
  "schemas.ts",
  "seat.ts",
  "text.ts",
];

test.each(PURE)("%s has no clock, no timer, no socket and no chance of its own", (name) => {
  const used = source(name).match(
    /\b(setTimeout|setInterval|queueMicrotask|performance|Date\.now|Math\.random|new WebSocket|localStorage|await)\b/g,
  );

  expect(used).toBeNull();
});

test.each(PURE)("%s imports nothing that has", (name) => {
  const imported = [...source(name).matchAll(/from "\.\/(\w+)\.js"/g)].map(([, each]) => `${each}.ts`);

  expect(imported.filter((each) => ![...PURE, "types.ts", "version.ts"].includes(each))).toEqual([]);
});

test("nothing is imported from outside", () => {
  const imported = readdirSync(sources).flatMap((name) =>
    [...source(name).matchAll(/from "([^"]+)"/g)].map(([, from]) => from),
  );

  expect(imported.filter((from) => !from?.startsWith("./"))).toEqual([]);
});

/** The words in the first column of a table of docs/protocol.md. */
function table(heading: string): string[] {
  const page = readFileSync(new URL("../../../docs/protocol.md", import.meta.url), "utf8");
  const rows = page.split(`### ${heading}\n`)[1]?.split("\n#")[0] ?? "";
  return [...rows.matchAll(/^\| `(\w+)` \|/gm)].map(([, word]) => word as string);
}

/** The words of a union in a source. */
function union(name: string, of: string): string[] {
  const declared = source(name).split(`export type ${of} =`)[1]?.split(";")[0] ?? "";
  return [...declared.matchAll(/\| "(\w+)"/g)].map(([, word]) => word as string);
}

test("the codes of refusals are those of the protocol", () => {
  expect(union("errors.ts", "RefusalCode").sort()).toEqual(table("Refusal codes").sort());
});

test("the reasons are those of the protocol", () => {
  const own = ["unreachable", "suspended"];

  expect(union("reasons.ts", "Reason").sort()).toEqual([...table("Seat reasons"), ...own].sort());
});

test("the version is the package's", () => {
  const { version, dependencies } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

  expect(VERSION).toBe(version);
  expect(dependencies).toBeUndefined();
});
