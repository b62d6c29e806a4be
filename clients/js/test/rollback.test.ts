/** A server whose store went back in time: this client knows more than it does. */

import { afterEach, beforeEach, expect, test } from "vitest";
import type { Resume } from "../src/frames.js";
import type { Outcome } from "../src/types.js";
import {
  data,
  type FakeServer,
  FakeStorage,
  goOn,
  later,
  ROOM,
  seatAt,
  settled,
  standStill,
  welcome,
} from "./fake_server.js";

const ROLLED_BACK = { kind: "resynced", reason: "rolled_back", age_s: 60.5 };
let server: FakeServer;

beforeEach(() => {
  server = standStill();
});
afterEach(goOn);

/** The client dials again, and says hello: what it says to come back. */
async function back(): Promise<Resume> {
  await server.last.end();
  await later(20);
  await server.last.open();
  return (server.last.heard[0] as unknown[])[2] as Resume;
}

test("a hello repeats the lineage of the last welcome, and says all that this client knows", async () => {
  const { room } = await server.seated();
  room.on("moved", () => {});
  await back();
  await server.last.say(welcome("s1", "t2", "resumed", [seatAt(0)], 1, "q83vASNF"));

  const resume = await back();

  expect(resume.lineage).toBe("q83vASNF");
  expect(resume.requests).toBe(1);
});

test("what came and was not read is part of what this client knows", async () => {
  await server.seated();
  await server.last.say(data(1, "moved", {}), data(2, "moved", {}));

  const resume = await back();

  expect(resume.positions).toEqual([{ channel: 1, generation: 1, received: 0, acked: 0, accepted: 2 }]);
});

test("a rollback is told with its reason and its age, and sending goes on", async () => {
  const { session, room } = await server.seated();
  const told: Outcome[] = [];
  session.on("resume", (outcome) => told.push(outcome));
  room.send("move", { x: 1 });
  await settled();
  await server.last.say(["ack", 1, 1]);
  room.send("move", { x: 2 });
  await back();

  await server.last.say(welcome("s1", "t2", ROLLED_BACK, [seatAt(1, 2)], 1, "q83vASNF"));
  room.send("move", { x: 3 });
  await settled();

  expect(told).toEqual([{ kind: "resynced", replayed: 0, reason: "rolled_back", ageS: 60.5, dropReason: "" }]);
  expect(server.last.all("data")).toEqual([
    ["data", 1, 2, 0, "move", { x: 2 }],
    ["data", 1, 3, 0, "move", { x: 3 }],
  ]);
});

test("an age that nobody knows is null", async () => {
  const { session } = await server.seated();
  await back();

  await server.last.say(welcome("s1", "t2", { kind: "resynced", reason: "rolled_back" }, [seatAt(0, 2)], 1));

  expect(session.outcome?.ageS).toBeNull();
});

test("a seat that the server knows nothing of is gone, and its number may be used again", async () => {
  const { session, room } = await server.seated();
  await back();

  await server.last.say(welcome("s1", "t2", ROLLED_BACK, [], 1));
  const joining = session.join("r2");
  await settled();
  await server.last.say(["seat", "joined", 1, 1, "r2", "arena", "seat"], ["reply", 2, { ...ROOM, id: "r2" }, null]);
  const other = await joining;

  expect(room.left?.reason).toBe("rolled_back");
  expect(other.id).toBe("r2");
  expect(session.room).toBe(other);
});

test("a seat that was left in the other history is there again", async () => {
  const { session, room } = await server.seated();
  room.on("*", () => {});
  await server.last.say(data(1, "holdfast.left", { reason: "kicked", message: "" }));
  expect(session.room).toBeNull();
  const resume = await back();

  await server.last.say(welcome("s1", "t2", ROLLED_BACK, [seatAt(3, 2)], 1));
  session.room?.send("move", { x: 4 });
  await settled();

  expect(resume.positions).toEqual([{ channel: 1, generation: 1, received: 1 }]);
  expect(session.room?.id).toBe("r1");
  expect(server.last.all("ack")).toEqual([]);
  expect(server.last.all("data")).toEqual([["data", 1, 4, 0, "move", { x: 4 }]]);
});

test("a saved state keeps the lineage", async () => {
  const storage = new FakeStorage();
  const { session } = await server.seated({ storage });
  await back();
  await server.last.say(welcome("s1", "t2", "resumed", [seatAt(0)], 1, "q83vASNF"));
  session.suspend();

  server.connect({ storage, afterRefresh: "replay" });
  await later(1);
  await server.last.open();

  const resume = (server.last.heard[0] as unknown[])[2] as Resume;
  expect([resume.lineage, resume.requests]).toEqual(["q83vASNF", 1]);
});
