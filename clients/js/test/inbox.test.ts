/** Messages to the session itself: the same claims as tests/server/test_session_messages.py makes of the Python client. */

import { afterEach, beforeEach, expect, test } from "vitest";
import { SessionEnded, TimedOut } from "../src/errors.js";
import type { FromServer } from "../src/frames.js";
import type { SessionMessage } from "../src/types.js";
import { data, type FakeServer, goOn, later, seatAt, settled, standStill, welcome } from "./fake_server.js";

const OPENED: FromServer = ["seat", "joined", 2, 1, "", "", "session"];
const own = (seq: number, n = seq): FromServer => ["data", 2, seq, 0, "counted", { n }];
const counted = (n: number): SessionMessage => ({ type: "counted", body: { n } });
const ownAt = (generation = 1) => ({ channel: 2, generation, applied: 0, room: "", kind: "", purpose: "session" });
let server: FakeServer;

beforeEach(() => {
  server = standStill();
});
afterEach(goOn);

test("messages wait for a reader, and are acknowledged when the next one is asked for", async () => {
  const { session } = await server.seated();
  await server.last.say(OPENED, own(1), own(2));
  await later(1);
  expect(server.last.all("ack")).toEqual([]);

  expect(await session.receive()).toEqual(counted(1));
  expect(await session.receive()).toEqual(counted(2));
  await later(1);

  expect(server.last.all("ack")).toEqual([["ack", 2, 1]]);
});

test("who waits is told as soon as a message comes, or that the session has ended", async () => {
  const { session } = await server.seated();
  const first = session.receive();
  await server.last.say(OPENED, own(1));
  expect(await first).toEqual(counted(1));

  const never = session.receive();
  session.close();

  await expect(never).rejects.toThrow(SessionEnded);
});

test("a listener gets what came before it and everything after, and each is acknowledged", async () => {
  const { session } = await server.seated();
  const heard: SessionMessage[] = [];
  await server.last.say(OPENED, own(1));

  session.on("message", (message) => heard.push(message));
  await settled();
  await server.last.say(own(2), ["data", 2, 3, 0, "holdfast.announcement", { text: "soon" }]);
  await later(1);

  expect(heard).toEqual([counted(1), counted(2), { type: "holdfast.announcement", body: { text: "soon" } }]);
  expect(server.last.all("ack").at(-1)).toEqual(["ack", 2, 3]);
});

test("messages to the session and to its seat do not mix", async () => {
  const { session, room } = await server.seated();
  const inRoom: unknown[] = [];
  room.on("*", (_, type) => inRoom.push(type));

  await server.last.say(OPENED, own(1), data(1, "moved", { x: 1 }, 0));

  expect(await session.receive()).toEqual(counted(1));
  expect(inRoom).toEqual(["moved"]);
});

test("a resume repeats what was not read, once", async () => {
  const { session } = await server.seated();
  await server.last.say(OPENED, own(1), own(2));
  await session.receive();

  await server.last.end();
  await later(0.2);
  await server.last.open();
  await server.last.say(welcome("s1", "t2", "resumed", [seatAt(0), ownAt()]), own(1), own(2), own(3));

  expect([await session.receive(), await session.receive()]).toEqual([counted(2), counted(3)]);
});

test("a stream that begins anew declares the gap", async () => {
  const { session } = await server.seated();
  await server.last.say(OPENED, own(1), own(2));

  await server.last.end();
  await later(0.2);
  await server.last.open();
  await server.last.say(welcome("s1", "t2", "resynced", [seatAt(0), ownAt(2)]), own(1, 9));

  expect([await session.receive(), await session.receive()]).toEqual([
    { type: "holdfast.resynced", body: {} },
    counted(9),
  ]);
});

test("a session that is another one declares the gap", async () => {
  const { session } = await server.seated();
  await server.last.say(OPENED, own(1));

  await server.last.end();
  await later(0.2);
  await server.last.open();
  await server.last.say(welcome("s2", "t2", { kind: "reset", reason: "expired" }), OPENED, own(1, 5));

  expect([await session.receive(), await session.receive()]).toEqual([
    { type: "holdfast.resynced", body: {} },
    counted(5),
  ]);
});

test("what comes after the last listener is gone waits for the next, also within one payload", async () => {
  const { session } = await server.seated();
  const heard: SessionMessage[] = [];
  const off = session.on("message", (message) => {
    heard.push(message);
    off();
  });

  await server.last.say(OPENED, own(1), own(2));
  await server.last.say(own(3));
  await later(1);

  expect(heard).toEqual([counted(1)]);
  expect(server.last.all("ack")).toEqual([["ack", 2, 1]]);
  expect(await session.receive()).toEqual(counted(2));
  session.on("message", (message) => heard.push(message));
  await settled();
  expect(heard).toEqual([counted(1), counted(3)]);
});

test("one type can be waited for, for so long only, and the others stay", async () => {
  const { session } = await server.seated();
  await server.last.say(OPENED, own(1), ["data", 2, 2, 0, "invited", { room: "r2" }]);

  expect(await session.receive("invited")).toEqual({ type: "invited", body: { room: "r2" } });
  expect(await session.receive()).toEqual(counted(1));
  const never = session.receive("invited", { timeoutS: 5 });
  const rejected = expect(never).rejects.toEqual(new TimedOut('no "invited" within 5 s'));
  await later(5);
  await rejected;
  const aborted = session.receive(undefined, { signal: AbortSignal.abort(new Error("enough")) });
  await expect(aborted).rejects.toThrow("enough");
});

test("what was read counts as processed when the session is suspended", async () => {
  const { session, room } = await server.seated();
  await server.last.say(OPENED, own(1), data(1, "moved", { x: 1 }), data(2, "moved", { x: 2 }));
  await session.receive();
  await room.receive("moved");

  session.suspend();

  expect(server.last.all("ack")).toEqual([
    ["ack", 1, 1],
    ["ack", 2, 1],
  ]);
});
