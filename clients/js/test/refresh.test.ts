/** A page is refreshed, duplicated, left: nothing is lost, nothing is handled twice, and no two tabs fight. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { data, FakeServer, FakeStorage, seatAt, settled, welcome } from "./fake_server.js";

let server: FakeServer;
let storage: FakeStorage;
let browser: Browser;

beforeEach(() => {
  browser = new Browser();
  browser.stub(true);
  vi.spyOn(console, "warn").mockImplementation(() => {});
  server = new FakeServer();
  storage = new FakeStorage();
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

/** What the tabs of one browser share: who listens to what, and locks. */
class Browser {
  readonly held = new Set<string>();
  readonly channels: { name: string; onmessage: ((event: { data: unknown }) => void) | null }[] = [];

  stub(hasLocks: boolean): void {
    const { channels, held } = this;
    class FakeChannel {
      onmessage: ((event: { data: unknown }) => void) | null = null;
      constructor(readonly name: string) {
        channels.push(this);
      }
      postMessage(data: unknown): void {
        const others = channels.filter((each) => each.name === this.name && each !== this);
        queueMicrotask(() => {
          for (const each of others) if (channels.includes(each)) each.onmessage?.({ data });
        });
      }
      close(): void {
        if (channels.includes(this)) channels.splice(channels.indexOf(this), 1);
      }
    }
    const request = async (name: string, options: LockOptions, granted: (lock: object | null) => unknown) => {
      while (held.has(name)) {
        if (options.ifAvailable) return granted(null);
        await new Promise((resolve) => setTimeout(resolve, 5));
        if (options.signal?.aborted) throw options.signal.reason;
      }
      held.add(name);
      await granted({});
      held.delete(name);
      return undefined;
    };
    vi.stubGlobal("BroadcastChannel", FakeChannel);
    vi.stubGlobal("navigator", hasLocks ? { locks: { request } } : {});
  }

  /** A page goes: everything that ran in it stops, at once. */
  leavePage(): void {
    server.last.onmessage = server.last.onclose = server.last.onopen = null;
    server.last.send = () => {};
    this.channels.splice(0);
    this.held.clear();
  }
}

async function dialled(times: number): Promise<void> {
  await vi.waitUntil(() => server.sockets.length === times, { timeout: 5000 });
  await server.last.open();
}

const hello = () => server.last.heard[0] as unknown as [string, unknown, { token: string; positions: object[] } | null];

test("what was sent and not applied is sent by the next page, and asks for the state of the room", async () => {
  const { room } = await server.seated({ storage });
  room.on("moved", () => {});
  room.send("move", { x: 1 });
  room.send("move", { x: 2 });
  await settled();
  await server.last.say(data(1, "moved", {}, 1));
  const kept = storage.copy();
  browser.leavePage();

  const connecting = server.connect({ storage: kept });
  await dialled(2);
  await server.last.say(welcome("s1", "t2", "resynced", [seatAt(1, 2)], 1), data(1, "state", { level: 3 }, 1));
  const session = await connecting;
  const seen: unknown[] = [];
  session.room?.on("*", (body, type) => seen.push([type, body]));
  await settled();

  expect(hello()[2]).toMatchObject({ token: "t1", positions: [{ channel: 1, generation: 1, acked: 1 }] });
  expect(hello()[2]?.positions[0]).not.toHaveProperty("received");
  expect(server.last.all("data")).toEqual([["data", 1, 2, expect.anything(), "move", { x: 2 }]]);
  expect(seen).toEqual([
    ["holdfast.resynced", {}],
    ["state", { level: 3 }],
  ]);
  expect(session.outcome?.kind).toBe("resynced");
});

test("with replay, what was handled before the refresh is not handled again, and what was not is", async () => {
  const { room } = await server.seated({ storage });
  const seen: number[] = [];
  const off = room.on("moved", ({ x }) => {
    seen.push(x);
    // The page is left in the middle of what came with one payload: that cannot be, a turn ends first.
    if (x === 2) queueMicrotask(off);
  });
  await server.last.say(data(1, "moved", { x: 1 }), data(2, "moved", { x: 2 }));
  const kept = storage.copy();
  browser.leavePage();

  const connecting = server.connect({ storage: kept, afterRefresh: "replay" });
  await dialled(2);
  await server.last.say(
    welcome("s1", "t2", { kind: "resumed", replayed: 1 }, [seatAt(0)], 1),
    data(3, "moved", { x: 3 }),
  );
  const session = await connecting;
  session.room?.on("moved", ({ x }) => seen.push(x));
  await settled();

  expect(hello()[2]?.positions).toEqual([{ channel: 1, generation: 1, received: 2, acked: 0 }]);
  expect(seen).toEqual([1, 2, 3]);
});

test("nothing leaves the page before what it tells of is kept", async () => {
  const { room } = await server.seated({ storage });
  const key = [...storage.items.keys()][0] as string;
  const order: string[] = [];
  const { send } = server.last;
  server.last.send = (payload) => {
    const { heard } = server.last;
    send.call(server.last, payload);
    for (const frame of heard.slice(-1)) order.push(`${frame[0]} with ${storage.getItem(key)?.includes("move")}`);
  };

  room.send("move", { x: 1 });
  await settled();

  expect(order).toEqual(["data with true"]);
});

test("the new token is kept before anything is said with it", async () => {
  await server.seated({ storage });
  const tokens: (boolean | undefined)[] = [];
  await server.last.end();
  await dialled(2);
  server.last.send = () => tokens.push([...storage.items.values()][0]?.includes("t2"));

  await server.last.say(welcome("s1", "t2", "resumed", [seatAt(0)], 1), ["ping", 1, 1, 0, 0, 0]);

  expect(tokens).toEqual([true]);
});

test("a storage that is full keeps nothing rather than something old", async () => {
  const { room } = await server.seated({ storage });
  expect(storage.items.size).toBe(1);

  storage.isFull = true;
  room.send("move", { x: 1 });
  await settled();

  expect(storage.items.size).toBe(0);
  expect(server.last.all("data")).toHaveLength(1);
});

test("what is kept is forgotten when the session ends", async () => {
  const { session } = await server.seated({ storage });

  session.close();

  expect(storage.items.size).toBe(0);
});

test("something else in its place is no session", async () => {
  await server.seated({ storage });
  for (const key of storage.items.keys()) storage.items.set(key, 'tab\n[1,{"session":7}]');

  const connecting = server.connect({ storage: storage.copy() });
  await dialled(2);
  await server.last.say(welcome("s2", "t9"));

  expect((await connecting).outcome?.kind).toBe("new");
});

test("a page that goes without a network keeps trying, since it has a session", async () => {
  await server.seated({ storage });
  const kept = storage.copy();
  browser.leavePage();

  const connecting = server.connect({ storage: kept });
  await vi.waitUntil(() => server.sockets.length === 2);
  await server.last.end();
  await dialled(3);
  await server.last.say(welcome("s1", "t2", "resynced", [seatAt(0, 2)], 1));

  expect((await connecting).id).toBe("s1");
});

test.each([true, false])("a duplicated tab begins a session of its own; locks: %s", async (hasLocks) => {
  browser.stub(hasLocks);
  const { session } = await server.seated({ storage });

  const connecting = server.connect({ storage: storage.copy() });
  await dialled(2);
  await server.last.say(welcome("s2", "t9"));
  const second = await connecting;

  expect(hello()[2]).toBeNull();
  expect(hello()[1]).toEqual({});
  expect([session.connected, second.connected]).toEqual([true, true]);
  session.close();
  second.close();
});

test.each([true, false])("a duplicated tab takes the session over; locks: %s", async (hasLocks) => {
  browser.stub(hasLocks);
  const { session, room } = await server.seated({ storage });
  const duplicate = storage.copy();
  room.on("moved", () => {});
  // What happened after the tab was duplicated is not in its copy: it must come from the tab itself.
  room.send("move", { x: 1 });
  await server.last.say(data(1, "moved", {}));
  const first = server.last;
  const closed = vi.fn();
  session.on("close", closed);

  const connecting = server.connect({ storage: duplicate, tabs: "takeover", afterRefresh: "replay" });
  await dialled(2);
  await server.last.say(welcome("s1", "t2", "resumed", [seatAt(0)], 1));
  const second = await connecting;

  expect(closed).toHaveBeenCalledWith(expect.objectContaining({ reason: "superseded" }));
  expect(first.closedWith?.[0]).toBe(3001);
  expect(hello()[2]?.positions).toEqual([{ channel: 1, generation: 1, received: 1, acked: 0 }]);
  expect(server.last.all("data")).toEqual([["data", 1, 1, 1, "move", { x: 1 }]]);
  expect(storage.items.size).toBe(0);
  // The first does not fight for it.
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(server.sockets).toHaveLength(2);
  second.close();
});

test.each([true, false])("a third tab does not use what it copied from the first; locks: %s", async (hasLocks) => {
  browser.stub(hasLocks);
  await server.seated({ storage });
  const [duplicate, another] = [storage.copy(), storage.copy()];
  const connecting = server.connect({ storage: duplicate, tabs: "takeover" });
  await dialled(2);
  await server.last.say(welcome("s1", "t2", "resynced", [seatAt(0, 2)], 1));
  await connecting;

  const third = server.connect({ storage: another, tabs: "takeover" });
  await dialled(3);
  await server.last.say(welcome("s2", "t9"));

  expect(hello()[2]).toBeNull();
  (await third).close();
  (await connecting).close();
});

test("a tab that answers too late keeps its session", async () => {
  const { session } = await server.seated({ storage });
  const copy = storage.copy();
  const [first] = browser.channels;
  const listen = first?.onmessage;
  const late: { data: unknown }[] = [];
  if (first) first.onmessage = (event) => late.push(event);

  const connecting = server.connect({ storage: copy, tabs: "takeover" });
  await dialled(2);
  await server.last.say(welcome("s2", "t9"));
  await connecting;
  for (const event of late) listen?.(event);

  expect(late).toHaveLength(1);
  expect(session.connected).toBe(true);
});

test("after a refresh the lock of the page before is waited for", async () => {
  await server.seated({ storage });
  const kept = storage.copy();
  const held = [...browser.held];
  browser.leavePage();
  // Nobody answers any more, but the browser has not let go of the lock yet.
  for (const name of held) browser.held.add(name);

  const connecting = server.connect({ storage: kept });
  setTimeout(() => browser.held.clear(), 300);
  await dialled(2);
  await server.last.say(welcome("s1", "t2", "resynced", [seatAt(0, 2)], 1));

  expect((await connecting).id).toBe("s1");
});

test("a page that is frozen gives its session up, so that the next page can have it", async () => {
  const target = new EventTarget();
  vi.stubGlobal("addEventListener", target.addEventListener.bind(target));
  vi.stubGlobal("removeEventListener", target.removeEventListener.bind(target));
  const { session } = await server.seated({ storage });
  const closed = vi.fn();
  session.on("close", closed);

  target.dispatchEvent(Object.assign(new Event("pagehide"), { persisted: true }));

  expect(closed).toHaveBeenCalledWith(expect.objectContaining({ reason: "suspended" }));
  expect(storage.items.size).toBe(1);
});

test("a suspended session goes on in another page where it stopped", async () => {
  const { session, room } = await server.seated({ storage });
  room.send("move", { x: 1 });
  await settled();

  session.suspend();
  const connecting = server.connect({ storage, afterRefresh: "replay" });
  await dialled(2);
  await server.last.say(welcome("s1", "t2", "resumed", [seatAt(0)], 1));
  await connecting;

  expect(hello()[2]).toMatchObject({ token: "t1", positions: [{ received: 0 }] });
  expect(server.last.all("data")).toEqual([["data", 1, 1, 0, "move", { x: 1 }]]);
});

test("a state that is older than what its page did afterwards uses no number twice", async () => {
  await server.seated({ storage });
  const old = storage.copy();
  browser.leavePage();

  const connecting = server.connect({ storage: old, afterRefresh: "replay" });
  await dialled(2);
  await server.last.say(welcome("s1", "t2", "resumed", [{ ...seatAt(2), accepted: 4 }], 3));
  const { room } = await connecting;
  room?.send("move", { x: 5 });
  await settled();
  expect(server.last.all("data").map((frame) => [frame[2], frame[4]])).toEqual([
    [3, "holdfast.forgotten"],
    [4, "holdfast.forgotten"],
  ]);
  await server.last.say(["ack", 1, 4]);

  expect(server.last.all("data").at(-1)).toEqual(["data", 1, 5, 0, "move", { x: 5 }]);
  void (await connecting).myRooms().catch(() => {});
  await settled();
  expect(server.last.all("request")).toEqual([["request", 4, "mine", {}]]);
});

test("a page that is refreshed before the server has applied what it does not remember waits for that, too", async () => {
  await server.seated({ storage });
  const old = storage.copy();
  browser.leavePage();
  const second = server.connect({ storage: old, afterRefresh: "replay" });
  await dialled(2);
  await server.last.say(welcome("s1", "t2", "resumed", [{ ...seatAt(0), accepted: 2 }], 1));
  await second;
  const kept = old.copy();
  browser.leavePage();

  const third = server.connect({ storage: kept, afterRefresh: "replay" });
  await dialled(3);
  await server.last.say(welcome("s1", "t3", "resumed", [{ ...seatAt(0), accepted: 2 }], 1));
  const { room } = await third;
  room?.send("move", { x: 3 });
  await settled();
  expect(server.last.all("data").map((frame) => frame[2])).toEqual([1, 2]);
  await server.last.say(["ack", 1, 2]);

  expect(server.last.all("data").at(-1)).toEqual(["data", 1, 3, 0, "move", { x: 3 }]);
});

test("messages to the session that a page has not dealt with are for the next one, and none of them is asked for anew", async () => {
  const { session } = await server.seated({ storage });
  await server.last.say(["seat", "joined", 2, 1, "", "", "session"]);
  for (const seq of [1, 2, 3]) await server.last.say(["data", 2, seq, 0, "counted", { n: seq }]);
  expect([await session.receive(), await session.receive()]).toMatchObject([{ body: { n: 1 } }, { body: { n: 2 } }]);
  await settled();
  browser.leavePage();

  const connecting = server.connect({ storage });
  await dialled(2);
  expect(hello()[2]?.positions[1]).toEqual({ channel: 2, generation: 1, received: 1, acked: 0 });
  const own = { channel: 2, generation: 1, applied: 0, room: "", kind: "", purpose: "session" };
  await server.last.say(welcome("s1", "t2", "resynced", [seatAt(0, 2), own]), ["data", 2, 2, 0, "counted", { n: 2 }]);

  expect(await (await connecting).receive()).toEqual({ type: "counted", body: { n: 2 } });
});
