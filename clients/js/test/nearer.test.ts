/** The session's node has an address of its own: the client goes there without a drop, if it can. */

import { afterEach, beforeEach, expect, test } from "vitest";
import type { FromServer } from "../src/frames.js";
import { data, type FakeServer, goOn, later, seatAt, settled, standStill, welcome } from "./fake_server.js";

let server: FakeServer;

beforeEach(() => {
  server = standStill();
});
afterEach(goOn);

const address = (url: unknown): FromServer => ["notice", "address", "", { address: url }];

async function watched() {
  const seated = await server.seated();
  const told: string[] = [];
  const seen: number[] = [];
  for (const event of ["drop", "resume", "reconnecting", "close"] as const)
    seated.session.on(event, () => told.push(event));
  seated.room.on("moved", ({ x }) => seen.push(x));
  return { ...seated, told, seen };
}

test("it goes to the address with a resume, and nobody hears of a drop", async () => {
  const { session, room, told, seen } = await watched();
  const [relaying] = server.sockets;
  await relaying?.say(data(1, "moved", { x: 1 }, 0), address("ws://node-a"));
  room.send("move", { x: 1 });
  await settled();
  expect(server.last.url).toBe("ws://node-a");
  expect(relaying?.closedWith).toBeNull();

  await server.last.open();
  // What still comes by the relay comes again by the new connection.
  await relaying?.say(data(2, "moved", { x: 2 }, 0));
  expect(server.last.all("hello")).toHaveLength(1);
  expect(relaying?.closedWith).toBeNull();
  await server.last.say(welcome("s1", "t2", { kind: "resumed", replayed: 1 }, [seatAt(0)]));
  await server.last.say(data(2, "moved", { x: 2 }, 1));

  expect(relaying?.closedWith).not.toBeNull();
  expect(server.last.all("data")).toHaveLength(1);
  expect(seen).toEqual([1, 2]);
  expect(told).toEqual([]);
  expect(session.connected).toBe(true);
  expect(session.drops).toBe(0);
});

test("an address that does not answer costs nothing, and is not tried again for a minute", async () => {
  const { told, seen } = await watched();
  const [relaying] = server.sockets;

  await relaying?.say(address("ws://node-a"));
  await later(4);
  await relaying?.say(address("ws://node-a"), data(1, "moved", { x: 1 }, 0));

  expect(server.sockets).toHaveLength(2);
  expect(server.last.closedWith).not.toBeNull();
  expect(seen).toEqual([1]);
  expect(told).toEqual([]);
});

test("a node that takes the connection and not the session leaves the usual way", async () => {
  const { session, told } = await watched();
  await server.last.say(address("ws://node-a"));
  await server.last.open();
  const nearer = server.last;

  await nearer.end();
  await later(0.2);
  expect(server.last.url).toBe("ws://fake");
  await server.welcomeBack("t2", 0);

  expect(told).toEqual(["reconnecting", "resume"]);
  expect(session.connected).toBe(true);
});

test.each(["", "javascript:alert(1)", "https://node-a", 7, null, "ws:", "wss://"])(
  "an address such as %j is ignored, or fails in silence",
  async (url) => {
    const { told } = await watched();

    await server.last.say(address(url));
    await later(4);

    expect(told).toEqual([]);
    expect(server.sockets.slice(1).every((socket) => /^wss?:/.test(socket.url))).toBe(true);
  },
);

test("a connection with TLS is never left for one without", async () => {
  const { Nearer } = await import("../src/nearer.js");
  const dialled: string[] = [];
  const nearer = new Nearer((url) => {
    dialled.push(url);
    throw new Error("not here");
  });

  for (const current of ["wss://game", "ws://game"])
    for (const to of [`ws://to-${current}`, `wss://to-${current}`]) nearer.told({ address: to }, current, () => {});

  expect(dialled).toEqual(["wss://to-wss://game", "ws://to-ws://game", "wss://to-ws://game"]);
});
