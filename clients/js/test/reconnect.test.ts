/** A session on its way through drops, with a server that is not there and a clock that stands still. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Reset, SessionEnded } from "../src/errors.js";
import { data, type FakeServer, goOn, later, ROOM, seatAt, settled, standStill, welcome } from "./fake_server.js";

let server: FakeServer;

beforeEach(() => {
  server = standStill();
});
afterEach(goOn);

test("after a drop what was not applied is sent again, with the same numbers, and doubles are dropped", async () => {
  const { session, room } = await server.seated();
  const told: unknown[] = [];
  const seen: number[] = [];
  session.on("drop", (drop) => told.push(["drop", drop]));
  session.on("reconnecting", (next) => told.push(["reconnecting", next]));
  session.on("resume", (outcome) => told.push(["resume", outcome]));
  room.on("moved", ({ x }) => seen.push(x));
  for (let x = 1; x <= 3; x++) room.send("move", { x });
  await settled();
  await server.last.say(data(1, "moved", { x: 1 }, 1));

  await server.last.end();
  room.send("move", { x: 4 });
  await later(0.2);
  await server.welcomeBack("t2", 2, { kind: "resumed", replayed: 1 });
  await server.last.say(data(1, "moved", { x: 1 }, 2), data(2, "moved", { x: 2 }, 2));

  expect(server.sockets).toHaveLength(2);
  expect(server.last.heard.slice(0, 3)).toEqual([
    [
      "hello",
      { scheme: "guest", credential: "ada.secret" },
      {
        session: "s1",
        token: "t1",
        positions: [{ channel: 1, generation: 1, received: 1, acked: 1 }],
        lineage: "",
        requests: 1,
      },
      expect.anything(),
      "",
      ["session", "state", "blocks", "moves"],
    ],
    ["data", 1, 3, 1, "move", { x: 3 }],
    ["data", 1, 4, 1, "move", { x: 4 }],
  ]);
  expect(seen).toEqual([1, 2]);
  expect(told).toEqual([
    ["drop", { reason: "dropped", message: "", attempt: 1, waitS: 0.05 }],
    ["reconnecting", { reason: "dropped", message: "", attempt: 1, waitS: 0.05 }],
    ["resume", { kind: "resumed", replayed: 1, reason: "", ageS: null, dropReason: "" }],
  ]);
});

test("a request without an answer is asked again after a resume, and answered once", async () => {
  const { session } = await server.seated();
  const searching = session.search("arena", { orderBy: "players desc", limit: 5 });
  await settled();
  expect(server.last.all("request").at(-1)).toEqual([
    "request",
    2,
    "search",
    { kind: "arena", order_by: ["players desc"], limit: 5 },
  ]);

  await server.last.end();
  await later(0.2);
  await server.welcomeBack("t2", 0);
  await server.last.say(["reply", 2, { rooms: [ROOM] }, null]);

  expect(server.last.all("request")).toHaveLength(1);
  expect(await searching).toMatchObject({ rooms: [{ id: "r1", maxPlayers: 8, openSeats: 0 }], cursor: "", hint: "" });
});

test("a search that finds nothing because of a type says so", async () => {
  const warned = vi.spyOn(console, "warn").mockReturnValue();
  const { session } = await server.seated();
  const searching = session.search("arena", { where: "properties.level > 2" });
  await settled();

  await server.last.say(["reply", 2, { rooms: [], hint: "properties.level is text" }, null]);

  expect(await searching).toEqual({ rooms: [], cursor: "", hint: "properties.level is text" });
  expect(warned).toHaveBeenCalledExactlyOnceWith("holdfast: a search found nothing: properties.level is text");
  warned.mockRestore();
});

test("a session that is gone is reset: its requests fail, its seat is gone, and the game is told why", async () => {
  const { session, room } = await server.seated();
  const left = vi.fn();
  room.on("holdfast.left", left);
  const asking = session.myRooms();
  asking.catch(() => {});
  await server.last.end();
  await later(0.2);

  await server.last.open();
  await server.last.say(welcome("s2", "t9", { kind: "reset", reason: "expired" }));

  await expect(asking).rejects.toBeInstanceOf(Reset);
  await expect(room.send("move", {})).rejects.toMatchObject({ code: "not_seated" });
  expect(session.outcome).toMatchObject({ kind: "reset", reason: "expired" });
  expect(left).toHaveBeenCalledWith({ reason: "expired", message: "" }, "holdfast.left");
});

test("a stream that begins anew is declared, and what was not read before it is dropped", async () => {
  const { room } = await server.seated();
  const seen: string[] = [];
  await server.last.say(data(1, "moved", {}));
  await server.last.end();
  await later(0.2);
  await server.last.open();
  await server.last.say(welcome("s1", "t2", "resynced", [seatAt(0, 2)], 1), data(1, "state", {}));

  room.on("*", (_, type) => seen.push(type));
  await settled();

  expect(seen).toEqual(["holdfast.resynced", "state"]);
});

test("a server that names a time is obeyed", async () => {
  const { session } = await server.seated();
  const waits: number[] = [];
  session.on("reconnecting", ({ waitS }) => waits.push(waitS));

  await server.last.say(["close", 4012, "stopping", "", 5, ""]);
  await later(5);
  expect(server.sockets).toHaveLength(1);
  await later(1);

  expect(waits).toEqual([5.05]);
  expect(server.sockets).toHaveLength(2);
});

test.each([4200, 4203, 4206, 4209, 1008])("close code %d ends the session for good", async (code) => {
  const { session } = await server.seated();
  const closed = vi.fn();
  session.on("close", closed);

  await server.last.end(code, "why");
  await later(200);

  expect(closed).toHaveBeenCalledOnce();
  expect(server.sockets).toHaveLength(1);
  await expect(session.search()).rejects.toThrow(SessionEnded);
});

test("who hears nothing for too long cuts the link and resumes; whoever is pinged stays and answers", async () => {
  await server.seated();
  await later(10);
  await server.last.say(["ping", 7, 1, 0, 31.5, 0]);
  expect(server.last.all("pong")).toEqual([["pong", 7, 1, 0]]);
  await later(15);
  expect(server.sockets).toHaveLength(1);

  await later(2);

  expect(server.sockets[0]?.closedWith?.[0]).toBe(3000);
  expect(server.sockets).toHaveLength(2);
});

test("a dial that nobody answers is given up too", async () => {
  await server.seated();
  await server.last.end();
  await later(0.2);
  expect(server.sockets).toHaveLength(2);

  await later(17);

  expect(server.sockets.length).toBeGreaterThan(2);
});

test("after giving up the session is over", async () => {
  const { session } = await server.seated({ giveUpS: 20 });
  const closed = vi.fn();
  session.on("close", closed);

  for (let i = 0; i < 12; i++) {
    await server.last.end();
    await later(10);
  }

  expect(closed).toHaveBeenCalledWith(expect.objectContaining({ reason: "unreachable" }));
});

test.each([
  ["no payload", Uint8Array.of(0xc1), 4202, "protocol"],
  ["a gap", null, 4002, "sequence"],
])("%s closes the connection with a reason", async (_, bytes, code, reason) => {
  await server.seated();

  await (bytes ? server.last.sayBytes(bytes) : server.last.say(data(2, "moved", {})));

  expect(server.last.closedWith).toEqual([code, reason]);
});

test("text where bytes were agreed on is a protocol error", async () => {
  const { session } = await server.seated();
  const closed = vi.fn();
  session.on("close", closed);

  server.last.onmessage?.({ data: "hello" } as never);
  await settled();

  expect(closed).toHaveBeenCalledWith(expect.objectContaining({ reason: "protocol" }));
});

test("who is told of a large payload waits for it so much longer, and no longer once it is there", async () => {
  await server.seated();
  await server.last.say(["ping", 1, 1, 0, 0, 30]);
  await later(45);
  expect(server.sockets).toHaveLength(1);

  await server.last.say(data(1, "moved", { x: 1 }, 0));
  await later(15);
  expect(server.sockets).toHaveLength(1);

  await later(2);
  expect(server.sockets).toHaveLength(2);
});

test("what waits for the server goes in small payloads, and a larger message alone", async () => {
  const { room } = await server.seated();
  await server.last.end();
  for (let x = 0; x < 200; x++) room.send("move", { x, ballast: "x".repeat(100) });
  room.send("move", { ballast: "x".repeat(10_000) });
  room.send("move", { x: 202 });
  await later(0.2);
  await server.welcomeBack("t2", 0);

  const [hello, ...sizes] = server.last.sizes;
  expect(hello).toBeLessThan(1000);
  expect(server.last.all("data")).toHaveLength(202);
  expect(sizes.filter((size) => size > 4096)).toHaveLength(1);
  expect(sizes.length).toBeLessThan(12);
});

test("a session is not given up while the server is reached, welcome or not, and is when it is not", async () => {
  const { session } = await server.seated({ giveUpS: 60 });
  const closed = vi.fn();
  session.on("close", closed);
  await server.last.end();

  for (let i = 0; i < 20; i++) {
    await later(15);
    await server.last.open();
    await server.last.end();
  }
  expect(closed).not.toHaveBeenCalled();

  for (let i = 0; i < 20; i++) {
    await later(15);
    await server.last.end();
  }
  expect(closed).toHaveBeenCalledWith(expect.objectContaining({ reason: "unreachable" }));
});

test("a watch is asked for again after a resume, and told the difference", async () => {
  const { session } = await server.seated();
  const watching = session.watch("arena");
  await settled();
  expect(server.last.all("request").at(-1)).toEqual(["request", 2, "watch", { id: "w1", kind: "arena" }]);
  await server.last.say(["reply", 2, { rooms: [ROOM, { ...ROOM, id: "r2" }] }, null]);
  const watch = await watching;
  const changes = vi.fn();
  watch.on("change", changes);

  await server.last.end();
  await later(0.2);
  await server.last.open();
  await server.last.say(welcome("s1", "t2", "resumed", [seatAt(0)], 2));
  await server.last.say(["reply", 3, { rooms: [{ ...ROOM, players: 2 }] }, null]);

  expect(changes).toHaveBeenCalledOnce();
  expect(changes.mock.calls[0]?.[0]).toMatchObject({ changed: [{ id: "r1", players: 2 }], removed: ["r2"] });
  expect([...watch.rooms.keys()]).toEqual(["r1"]);
});

/** A page whose network comes and goes. */
function page() {
  const target = new EventTarget();
  vi.stubGlobal("addEventListener", target.addEventListener.bind(target));
  vi.stubGlobal("removeEventListener", target.removeEventListener.bind(target));
  return (event: string) => target.dispatchEvent(new Event(event));
}

test("when the network goes the link is cut, and when it is back the next attempt is made at once", async () => {
  const happens = page();
  await server.seated();
  happens("offline");
  await settled();
  expect(server.last.closedWith).not.toBeNull();
  for (let i = 0; i < 5; i++) {
    await later(8);
    await server.last.end();
  }
  const before = server.sockets.length;

  happens("online");
  await settled();

  expect(server.sockets).toHaveLength(before + 1);
});

test("a page that was asleep looks at its link when it is seen again", async () => {
  const document = Object.assign(new EventTarget(), { visibilityState: "visible" });
  vi.stubGlobal("document", document);
  await server.seated();
  // Timers stand still in a page that sleeps; the clock does not.
  const asleep = performance.now() + 60_000;
  vi.spyOn(performance, "now").mockImplementation(() => asleep);

  document.dispatchEvent(new Event("visibilitychange"));
  await settled();

  expect(server.last.closedWith).not.toBeNull();
});

test("what nobody has dealt with is not claimed to be received, and does not come twice", async () => {
  const { room } = await server.seated();
  await server.last.say(data(1, "moved", { x: 1 }), data(2, "moved", { x: 2 }));

  await server.last.end();
  await later(0.2);
  await server.welcomeBack("t2", 0, { kind: "resumed", replayed: 2 });
  await server.last.say(data(1, "moved", { x: 1 }), data(2, "moved", { x: 2 }), data(3, "moved", { x: 3 }));
  const seen: number[] = [];
  room.on("moved", ({ x }) => seen.push(x));
  await settled();

  expect(server.last.heard[0]?.[2]).toMatchObject({ positions: [{ channel: 1, received: 0 }] });
  expect(seen).toEqual([1, 2, 3]);
});

test("a server that welcomes and fails is met with a little more patience each time, up to a limit", async () => {
  const { session } = await server.seated();
  const waits: number[] = [];
  session.on("reconnecting", ({ waitS }) => waits.push(waitS));

  for (let i = 0; i < 5; i++) {
    await server.last.end();
    await later(1);
    await server.welcomeBack(`t${i + 2}`, 0);
  }
  await later(2);
  await server.last.end();

  expect(waits).toEqual([0.05, 0.1, 0.2, 0.4, 0.4, 0.05]);
});

test("a server that stays away is asked less often; how often is a setting", async () => {
  const { session } = await server.seated({ giveUpS: 3600, retryFirstS: 0.5, retryLongestS: 2 });
  const waits: number[] = [];
  session.on("reconnecting", ({ waitS }) => waits.push(waitS));

  for (let i = 0; i < 4; i++) {
    await server.last.end();
    await later(waits.at(-1) as number);
  }
  expect(waits).toEqual([0.25, 0.5, 1, 1]);
  await later(600);
  await server.last.end();

  expect(waits.at(-1)).toBe(15);
});

test("waits that make no sense are refused", async () => {
  await expect(server.connect({ retryFirstS: 0 })).rejects.toMatchObject({ code: "invalid" });
  await expect(server.connect({ retryFirstS: 2, retryLongestS: 1 })).rejects.toMatchObject({ code: "invalid" });
});

test.each([
  ["dialect", "use `codec`"],
  ["resume", "use `saved`"],
])("the removed option `%s` is refused, with what to use instead", async (name, instead) => {
  const connecting = server.connect({ [name]: "ada" });

  await expect(connecting).rejects.toMatchObject({ code: "invalid" });
  await expect(connecting).rejects.toThrow(`\`${name}\` was removed: ${instead}`);
  expect(server.sockets).toEqual([]);
});

test("a server that names a time is obeyed also when the network is back", async () => {
  const happens = page();
  await server.seated();
  await server.last.say(["close", 4005, "throttled", "", 5, ""]);

  happens("online");
  await settled();
  expect(server.sockets).toHaveLength(1);
  await later(6);

  expect(server.sockets).toHaveLength(2);
});

test("a dial that began without a network is begun again when there is one", async () => {
  const happens = page();
  await server.seated();
  await server.last.end();
  await later(0.2);
  expect(server.sockets).toHaveLength(2);

  happens("online");
  await later(0.2);

  expect(server.sockets).toHaveLength(3);
});

test("what is left when a listener suspends the session is for whoever goes on with it", async () => {
  const { session, room } = await server.seated();
  const seen: number[] = [];
  room.on("moved", ({ x }) => {
    seen.push(x);
    if (x === 2) session.suspend();
  });

  await server.last.say(data(1, "moved", { x: 1 }), data(2, "moved", { x: 2 }), data(3, "moved", { x: 3 }));

  expect(seen).toEqual([1, 2]);
});

test("a dial that fails with an error and no close, as Node 22's do, is tried again at once", async () => {
  await server.seated();
  await server.last.end();
  await later(1);
  const dialled = server.sockets.length;

  server.last.onerror?.({} as never);
  await later(1);

  expect(server.sockets.length).toBeGreaterThan(dialled);
});
