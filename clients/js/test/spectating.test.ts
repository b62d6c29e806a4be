/** The client's side of watching a room: what is asked for, and which room is which. */

import { afterEach, beforeEach, expect, test } from "vitest";
import type { FromServer } from "../src/frames.js";
import { type FakeServer, FakeStorage, goOn, later, ROOM, SEAT, settled, standStill, welcome } from "./fake_server.js";

const PLACE: FromServer = ["seat", "joined", 1, 1, "r1", "arena", "spectator"];
const PLACE_INFO = {
  channel: 1,
  generation: 1,
  applied: 0,
  room: "r1",
  kind: "arena",
  accepted: 0,
  purpose: "spectator",
};
let server: FakeServer;

beforeEach(() => {
  server = standStill();
});
afterEach(goOn);

async function watching(options = {}) {
  const connecting = server.connect(options);
  await settled();
  await server.last.open();
  await server.last.say(welcome("s1", "t1"));
  const session = await connecting;
  const asked = session.spectate({ code: "ABC234" }, { password: "sesame" });
  await settled();
  await server.last.say(PLACE, ["reply", 1, { ...ROOM, spectators: 1, max_spectators: 5 }, null]);
  return { session, watched: await asked };
}

test("a room is watched by its code, and left by a request of its own", async () => {
  const { session, watched } = await watching();
  const leaving = watched.leave();
  await settled();
  await server.last.say(["reply", 2, null, null]);
  await leaving;

  expect(server.last.all("request")).toEqual([
    ["request", 1, "spectate", { code: "ABC234", password: "sesame" }],
    ["request", 2, "unspectate", {}],
  ]);
  expect(watched.isSpectator).toBe(true);
  expect([watched.info?.spectators, watched.info?.maxSpectators]).toEqual([1, 5]);
  expect([session.room, session.spectating]).toEqual([null, null]);
});

test("a seat in the watched room is another room, and the end of the first says so", async () => {
  const { session, watched } = await watching();
  const told: string[] = [];
  watched.on("holdfast.left", ({ reason }) => told.push(reason));

  await server.last.say(
    ["seat", "joined", 2, 1, "r1", "arena", "seat"],
    ["data", 1, 1, 0, "holdfast.left", { reason: "seated", message: "" }],
  );

  expect(told).toEqual(["seated"]);
  expect([session.room?.channel, session.room?.isSpectator, session.spectating]).toEqual([2, false, null]);
  await expect(watched.send("cheer")).rejects.toThrow("the place is gone: seated");
});

test("a seat and a watched room are read side by side", async () => {
  const { session, watched } = await watching();
  const joining = session.join("r2");
  await settled();
  await server.last.say(["seat", "joined", 2, 1, "r2", "arena", "seat"], ["reply", 2, { ...ROOM, id: "r2" }, null]);
  const seat = await joining;
  const heard: string[] = [];
  watched.on("moved", () => heard.push("watched"));
  seat.on("moved", () => heard.push("seat"));

  await server.last.say(["data", 1, 1, 0, "moved", {}], ["data", 2, 1, 0, "moved", {}], ["latest", 1, "moved", {}]);

  expect(heard).toEqual(["watched", "watched", "seat"]);
  expect([session.room, session.spectating]).toEqual([seat, watched]);
});

test("the next page goes on watching, and asks for the state", async () => {
  const storage = new FakeStorage();
  const { session } = await watching({ saved: "ada", storage });
  session.suspend();
  const connecting = server.connect({ saved: "ada", storage });
  await later(1);
  await server.last.open();

  await server.last.say(welcome("s1", "t2", "resynced", [{ ...PLACE_INFO, generation: 2 }], 1));
  const back = await connecting;

  expect(back.spectating?.id).toBe("r1");
  expect(back.spectating?.isSpectator).toBe(true);
  expect(back.room).toBeNull();
  expect(SEAT[0]).toBe("seat");
});
