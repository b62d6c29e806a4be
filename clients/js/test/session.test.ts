/** A session and its room, with a server that is not there and a clock that stands still. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Refused, TimedOut, Unreachable } from "../src/errors.js";
import type { FromServer } from "../src/frames.js";
import {
  data,
  type FakeServer,
  FakeStorage,
  goOn,
  later,
  ROOM,
  SEAT,
  settled,
  standStill,
  welcome,
} from "./fake_server.js";

let server: FakeServer;

beforeEach(() => {
  server = standStill();
});
afterEach(goOn);

test("the hello is alone until the welcome has come", async () => {
  const connecting = server.connect({ auth: { credential: "secret" }, name: "Ada" });
  await settled();
  await server.last.open();

  expect(server.last.protocols).toEqual(["holdfast.v1.msgpack"]);
  expect(server.last.heard).toEqual([
    [
      "hello",
      { credential: "secret" },
      null,
      expect.stringContaining("holdfast-js"),
      "Ada",
      ["session", "state", "blocks", "moves"],
    ],
  ]);

  await server.last.say(welcome("s1", "t1"));
  const session = await connecting;
  expect(session).toMatchObject({ id: "s1", playerId: "ada", connected: true, outcome: { kind: "new" } });
});

test("an address where nobody answers is an error, and not tried again", async () => {
  const connecting = server.connect();
  await settled();
  await server.last.end();

  await expect(connecting).rejects.toThrow(Unreachable);
  await later(100);
  expect(server.sockets).toHaveLength(1);
});

test("a server that does not want us says why", async () => {
  const connecting = server.connect();
  await settled();
  await server.last.open();
  await server.last.say(["close", 4102, "refused", "members only", 0, "not_allowed"]);

  await expect(connecting).rejects.toMatchObject({
    reason: "refused",
    message: "members only",
    problem: "not_allowed",
  });
});

test("messages that come before there is a listener wait for it, all of this turn's", async () => {
  const { room } = await server.seated();
  await server.last.say(data(1, "state", { level: 3 }), data(2, "moved", { x: 1 }));
  const seen: unknown[] = [];

  room.on("moved", (body) => seen.push(body));
  room.on("state", (body) => seen.push(body));
  await settled();

  expect(seen).toEqual([{ level: 3 }, { x: 1 }]);
});

test("a message is acknowledged when its listeners have returned, not when it came", async () => {
  const { room } = await server.seated();
  await server.last.say(data(1, "moved", {}));
  await later(1);
  expect(server.last.all("ack")).toEqual([]);

  room.on("moved", () => {});
  await later(1);

  expect(server.last.all("ack")).toEqual([["ack", 1, 1]]);
});

test("a listener that throws harms neither the next message nor the next listener", async () => {
  const failed = vi.spyOn(console, "error").mockImplementation(() => {});
  const { room } = await server.seated();
  const seen: number[] = [];
  room.on("moved", () => {
    throw new Error("a bug of the game");
  });
  room.on("moved", ({ x }) => seen.push(x));

  await server.last.say(data(1, "moved", { x: 1 }), data(2, "moved", { x: 2 }));

  expect(seen).toEqual([1, 2]);
  expect(failed).toHaveBeenCalledTimes(2);
});

test("a type of message that nobody ever listened for is named once", async () => {
  const { room } = await server.seated();
  const off = room.on("moved", () => {});
  off();

  await server.last.say(data(1, "moved", {}), data(2, "said", {}), data(3, "holdfast.host", { player: "ada" }));
  await server.last.say(data(4, "said", {}), data(5, "moved", {}));

  expect(console.warn).toHaveBeenCalledOnce();
  expect(console.warn).toHaveBeenCalledWith(expect.stringContaining('"said"'));
});

test("one type is waited for, and the others stay for listeners", async () => {
  const { room } = await server.seated();
  const seen: unknown[] = [];
  await server.last.say(data(1, "said", { text: "a" }), data(2, "moved", { x: 1 }));

  expect(await room.receive("moved")).toEqual({ x: 1 });
  const next = room.receive("moved", { timeoutS: 60 });
  await server.last.say(data(3, "said", { text: "b" }), data(4, "moved", { x: 2 }));
  expect(await next).toEqual({ x: 2 });
  await later(1);
  expect(server.last.all("ack")).toEqual([]); // the first was not read

  room.on("*", (body, type) => seen.push([type, body]));
  await later(1);
  expect(seen).toEqual([
    ["said", { text: "a" }],
    ["said", { text: "b" }],
  ]);
  expect(server.last.all("ack")).toEqual([["ack", 1, 4]]);
});

test("what was received counts as processed as soon as the next one is asked for, and the seat can be done with", async () => {
  const { room } = await server.seated();
  await server.last.say(data(1, "moved", { x: 1 }));
  await room.receive("moved");

  const next = room.receive("moved");
  await later(1);
  expect(server.last.all("ack")).toEqual([["ack", 1, 1]]);

  await Promise.all([
    expect(next).rejects.toMatchObject({ code: "not_seated" }),
    server.last.say(data(2, "holdfast.left", { reason: "kicked", message: "" })),
  ]);
  expect(server.last.all("ack").at(-1)).toEqual(["ack", 1, 2]);
});

test("a message goes to whoever waits for it, and not to a listener too", async () => {
  const { room } = await server.seated();
  const seen: unknown[] = [];
  room.on("moved", ({ x }) => seen.push(x));

  const waited = room.receive("moved");
  await server.last.say(data(1, "moved", { x: 1 }), data(2, "moved", { x: 2 }));

  expect(await waited).toEqual({ x: 1 });
  expect(seen).toEqual([2]);
});

test("who waits for a message is told when it is late, aborted, or cannot come", async () => {
  const { session, room } = await server.seated();
  const abort = new AbortController();
  const ends = [
    expect(room.receive("moved", { timeoutS: 5 })).rejects.toThrow(new TimedOut('no "moved" within 5 s')),
    expect(room.receive("moved", { signal: abort.signal })).rejects.toThrow("enough"),
    expect(room.receive("moved", { signal: AbortSignal.abort(new Error("before")) })).rejects.toThrow("before"),
  ];
  const gone = expect(room.receive("moved")).rejects.toMatchObject({ code: "not_seated" });
  abort.abort(new Error("enough"));
  await later(5);
  await Promise.all(ends);

  await server.last.say(data(1, "holdfast.left", { reason: "kicked", message: "" }));
  await gone;
  session.close();
});

test("a page that listens for everything is told of everything", async () => {
  const { room } = await server.seated();
  room.on("*", () => {});

  await server.last.say(data(1, "said", {}));

  expect(console.warn).not.toHaveBeenCalled();
});

test("what is sent is taken as it is then, and goes out in order with this turn", async () => {
  const { room } = await server.seated();
  const body = { x: 1 };

  room.send("move", body);
  body.x = 2;
  room.send("move", body);
  await settled();

  expect(server.last.all("data")).toEqual([
    ["data", 1, 1, 0, "move", { x: 1 }],
    ["data", 1, 2, 0, "move", { x: 2 }],
  ]);
});

test("a sender waits while the window is full, and nobody overtakes", async () => {
  const { room } = await server.seated();
  for (let x = 1; x <= 1024; x++) room.send("move", { x });
  const done: number[] = [];
  room.send("move", { x: 1025 }).then(() => done.push(1025));
  room.send("move", { x: 1026 }).then(() => done.push(1026));
  room.on("go", () => room.send("move", { x: 1027 }));
  await settled();
  expect(done).toEqual([]);

  await server.last.say(data(1, "go", {}, 2));

  expect(done).toEqual([1025, 1026]);
  expect(server.last.all("data").slice(-2)).toMatchObject([
    ["data", 1, 1025, 1, "move", { x: 1025 }],
    ["data", 1, 1026, 1, "move", { x: 1026 }],
  ]);
  await server.last.say(["ack", 1, 5]);
  expect(server.last.all("data").at(-1)).toMatchObject(["data", 1, 1027, 1, "move", { x: 1027 }]);
});

test("whoever sends without waiting while nothing gets through is refused in the end", async () => {
  const { room } = await server.seated();
  await server.last.end();

  for (let x = 0; x < 1024 + 4096; x++) room.send("move", { x });

  await expect(room.send("move", { x: -1 })).rejects.toMatchObject({ code: "throttled" });
  expect(console.warn).toHaveBeenCalledOnce();
});

test("terms that nobody can keep are a protocol error", async () => {
  const connecting = server.connect();
  await settled();
  await server.last.open();
  const [...frame] = welcome("s1", "t1") as unknown[];
  frame[5] = { ...(frame[5] as object), window_messages_max: 0 };
  await server.last.say(frame as unknown as FromServer);

  await expect(connecting).rejects.toMatchObject({ reason: "protocol" });
});

test("who waits for a seat for so long only is told that the time is over, or why it was aborted", async () => {
  const { session } = await server.seated();
  const aborted = session.waitForSeat("r2", { signal: AbortSignal.abort(new Error("enough")) });
  await expect(aborted).rejects.toThrow("enough");
  const late = expect(session.waitForSeat("r2", { timeoutS: 5 })).rejects.toEqual(
    new TimedOut("no seat in room r2 within 5 s"),
  );
  await settled();
  await server.last.say(["reply", 2, { room: "r2", position: 2 }, null]);

  await later(5);

  await late;
});

test("a line is stood in, told of, asked again after a drop, and left with a seat", async () => {
  const connecting = server.connect();
  await settled();
  await server.last.open();
  await server.last.say(welcome("s1", "t1"));
  const session = await connecting;
  const positions: number[] = [];
  const waiting = session.waitForSeat("r1", {
    onPosition: (position) => {
      positions.push(position);
      // Whoever is told may ask for something else at once.
      void session.myRooms().catch(() => {});
    },
  });
  await settled();
  await server.last.say(["reply", 1, { room: "r1", position: 2 }, null]);
  await server.last.end();
  await later(0.2);
  await server.last.open();
  await server.last.say(welcome("s1", "t2", "resumed", [], 2));
  await server.last.say(["reply", 2, [], null], ["reply", 3, { room: "r1", position: 1 }, null]);
  await server.last.say(["notice", "offer", "r1", { room: "r1", position: 0, expires_in_s: 60 }]);
  await server.last.say(SEAT, ["reply", 5, ROOM, null]);

  expect((await waiting).id).toBe("r1");
  expect(positions).toEqual([2, 1]);
  expect(server.last.all("request").map((frame) => frame[2])).toEqual(["mine", "wait", "mine", "join"]);
  session.close();
});

test("only the newest of what may be lost goes out", async () => {
  const { room } = await server.seated();

  room.sendLatest("aim", { angle: 1 });
  room.sendLatest("aim", { angle: 2 });
  room.sendLatest("aim", { angle: 3 }, "left hand");
  await settled();

  expect(server.last.all("latest")).toEqual([
    ["latest", 1, "aim", { angle: 2 }],
    ["latest", 1, "aim", { angle: 3 }],
  ]);
});

test("what cannot be encoded or is too big is refused at once, and takes no number", async () => {
  const { room } = await server.seated();

  expect(() => room.send("move", { x: () => {} })).toThrow(Refused);
  expect(() => room.send("move", { text: "x".repeat(70_000) })).toThrow(/70011 bytes/);
  room.send("move", { x: 1 });
  await settled();

  expect(server.last.all("data")).toEqual([["data", 1, 1, 0, "move", { x: 1 }]]);
});

test("closing says goodbye, and nothing is left that could wake up", async () => {
  const { session, room } = await server.seated();
  room.send("move", { x: 1 });

  session.close();
  session.close();
  await settled();

  expect(server.last.heard.slice(-2).map((frame) => frame[0])).toEqual(["data", "bye"]);
  expect(server.last.closedWith?.[0]).toBe(1000);
  expect(vi.getTimerCount()).toBe(0);
});

test("leaving goes after what was sent, and tells the listeners once", async () => {
  const { room } = await server.seated();
  const left = vi.fn();
  room.on("holdfast.left", left);
  room.send("move", { x: 1 });
  const leaving = room.leave();
  await settled();
  expect(server.last.heard.slice(-2).map((frame) => frame[0])).toEqual(["data", "request"]);

  await server.last.say(["reply", 2, null, null], data(1, "holdfast.left", { reason: "left", message: "" }, 1));
  await leaving;

  expect(left).toHaveBeenCalledOnce();
  expect(server.last.heard.at(-1)).toEqual(["ack", 1, 1]);
});

test("a guest gets an account, and the new token is kept before the old one is given up", async () => {
  const storage = new FakeStorage();
  const { session } = await server.seated({ storage });
  const linking = session.link({ scheme: "password", credential: "ada:secret" });
  await settled();
  expect(server.last.all("request").at(-1)).toEqual([
    "request",
    2,
    "link",
    { scheme: "password", credential: "ada:secret" },
  ]);

  await server.last.say(["reply", 2, { player: "ada", token: "t-linked" }, null]);
  expect(server.last.all("request").at(-1)).toEqual(["request", 3, "confirm", {}]);
  expect([...storage.items.values()][0]).toContain("t-linked");
  await server.last.say(["reply", 3, null, null]);
  await linking;

  expect(session.credential).toBe("");
  session.close();
});

test("a placement is followed until it is over", async () => {
  const { session } = await server.seated();
  const placing = session.place("europe", "arena", { players: ["ada", { id: "bob", latenciesMs: { eu: 21.5 } }] });
  await settled();
  expect(server.last.all("request").at(-1)?.[3]).toEqual({
    queue: "europe",
    kind: "arena",
    players: [{ id: "ada" }, { id: "bob", latencies_ms: { eu: 21.5 } }],
  });
  const info = { id: "p1", queue: "europe", status: "pending", players: ["ada", "bob"] };
  await server.last.say(["reply", 2, info, null]);
  const placement = await placing;
  expect(placement.info).toMatchObject({ status: "pending", room: null });

  await server.last.say(["notice", "placement", "p1", { ...info, status: "fulfilled", room: ROOM }]);

  expect(await placement.done()).toMatchObject({ status: "fulfilled", room: { id: "r1", maxPlayers: 8 } });
});

test.each([
  ["an entry that is a text", "room"],
  ["an entry without an id", { kind: "arena" }],
  ["nothing", null],
])("%s is no answer to a request for a room", async (_, answer) => {
  const { session } = await server.seated();
  const creating = session.create("arena");
  creating.catch(() => {});
  await settled();

  await server.last.say(["reply", 2, answer, null]);

  await expect(creating).rejects.toMatchObject({ name: "ProtocolError" });
});
