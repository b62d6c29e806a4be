/** A program is killed at any instruction, and another goes on from what it saved: nothing twice, nothing lost. */

import { mkdtempSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ClientProtocol } from "../src/protocol.js";
import { SessionFile } from "../src/storage.js";
import { data, FakeServer, FakeStorage, seatAt, settled, welcome } from "./fake_server.js";

const LAST = 4;
let server: FakeServer;
let file: string;

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  server = new FakeServer();
  file = join(mkdtempSync(join(tmpdir(), "holdfast-")), "ada.session");
});
afterEach(() => vi.restoreAllMocks());

/** All that others know of a program is what it wrote. One that is killed does not write any more. */
class Life {
  isOver = false;
  constructor(private left: number) {}

  writes(): boolean {
    this.left -= 1;
    if (this.left === 0) this.isOver = true;
    return !this.isOver;
  }
}

class Disk extends FakeStorage {
  life = new Life(Number.POSITIVE_INFINITY);

  override setItem(key: string, text: string): void {
    if (this.life.writes()) super.setItem(key, text);
  }
}

/** The socket of a life, as the server has it. */
function mortal(life: Life): void {
  const socket = server.last;
  const send = socket.send.bind(socket);
  socket.send = (payload) => {
    if (life.writes()) send(payload);
  };
}

/** What the room has got, over all sockets: doubles are dropped by their numbers, as the server does. */
function got(): { applied: number; numbers: unknown[] } {
  const frames = server.sockets.flatMap((socket) => socket.all("data"));
  let applied = 0;
  const numbers: unknown[] = [];
  for (const [, , seq, , , body] of frames) {
    if (seq !== applied + 1) continue;
    applied = seq as number;
    numbers.push((body as { x: number }).x);
  }
  return { applied, numbers };
}

/** One kill: what came, how far `send` had said that it is sent, and whether it was killed. */
async function killedIn(
  write: number,
): Promise<{ numbers: unknown[]; told: number; sent: number; wasKilled: boolean }> {
  server = new FakeServer();
  const disk = new Disk();
  let told = 0;
  const first = new Life(write);
  disk.life = first;
  const { room } = await server.seated({ storage: disk, afterRefresh: "replay" });
  mortal(first);
  while (room.sent < LAST && !first.isOver) {
    const number = await room.send("move", { x: room.sent + 1 });
    if (!first.isOver) told = number;
    await settled();
  }
  server.last.onmessage = server.last.onclose = server.last.onopen = null;

  disk.life = new Life(Number.POSITIVE_INFINITY);
  const dialled = server.sockets.length;
  const connecting = server.connect({ storage: disk.copy(), afterRefresh: "replay" });
  await vi.waitUntil(() => server.sockets.length > dialled);
  await server.last.open();
  await server.last.say(welcome("s1", "t2", "resumed", [seatAt(got().applied)], 1));
  const again = (await connecting).room;
  if (!again) throw new Error("the seat is gone");
  const sent = again.sent;
  while (again.sent < LAST) await again.send("move", { x: again.sent + 1 });
  await settled();
  return { numbers: got().numbers, told, sent, wasKilled: first.isOver };
}

test("a program killed in any write sends nothing twice and loses nothing", async () => {
  let write = 1;
  for (; ; write++) {
    const { numbers, told, sent, wasKilled } = await killedIn(write);
    expect(numbers, `killed in write ${write}`).toEqual([1, 2, 3, 4]);
    expect(sent, `killed in write ${write}`).toBeGreaterThanOrEqual(told);
    if (!wasKilled) break;
  }
  expect(write).toBeGreaterThan(2 * LAST);
}, 60_000);

test("a program that restarts can ask what was accepted and what is on its way", async () => {
  const first = await server.seated({ saved: file });
  expect(await first.room.send("move", { x: 1 })).toBe(1);
  expect(await first.room.send("move", { x: 2 })).toBe(2);
  await server.last.say(["ack", 1, 1]);
  await server.last.say(data(1, "moved", {}));
  first.room.on("moved", () => {});
  await settled();
  expect([first.room.sent, first.room.accepted, first.room.received]).toEqual([2, 1, 1]);
  // Killed: nothing is closed, and the lock is that of a process which is no more.
  server.last.onmessage = server.last.onclose = null;
  writeFileSync(`${file}.lock`, `${process.pid} 1`);

  const connecting = server.connect({ saved: file });
  await vi.waitUntil(() => server.sockets.length === 2);
  await server.last.open();
  expect(server.last.heard[0]?.[2]).toMatchObject({ token: "t1", positions: [{ channel: 1, received: 1 }] });
  await server.last.say(welcome("s1", "t2", "resumed", [seatAt(1)], 1));
  const { room, outcome } = await connecting;

  expect(outcome?.kind).toBe("resumed");
  expect([room?.sent, room?.accepted, room?.received]).toEqual([2, 1, 1]);
  expect(room?.unconfirmed).toEqual([{ number: 2, type: "move", body: { x: 2 } }]);
  await server.last.say(["ack", 1, 2]);
  expect([room?.accepted, room?.unconfirmed]).toEqual([2, []]);
});

test("a file is for its owner only, and gone with the session", async () => {
  const { session } = await server.seated({ saved: file });
  await settled();
  expect(statSync(file).mode & 0o777).toBe(0o600);

  session.close();

  expect(() => statSync(file)).toThrow();
  expect(() => statSync(`${file}.lock`)).toThrow();
});

test("a suspended session stays in its file", async () => {
  const { session } = await server.seated({ saved: file });

  session.suspend();

  expect(readFileSync(file, "utf8")).toContain("t1");
  expect(() => statSync(`${file}.lock`)).toThrow();
});

test("a line that a killed process did not finish is passed over", () => {
  const first = new SessionFile(file);
  first.setItem("", "tab\none");
  first.setItem("", "tab\ntwo");
  first.close();
  const written = readFileSync(file, "utf8");

  for (let length = written.length; length >= 8; length--) {
    writeFileSync(file, written.slice(0, length));
    const again = new SessionFile(file);
    expect(again.getItem()).toBe(length === written.length ? "tab\ntwo" : "tab\none");
    again.close();
  }
});

test("a file does not grow without bound", () => {
  const storage = new SessionFile(file);
  for (let i = 0; i < 300; i++) storage.setItem("", `tab\n${"x".repeat(10_000)}${i}`);

  expect(statSync(file).size).toBeLessThan(1_100_000);
  expect(storage.getItem()?.endsWith("x299")).toBe(true);
  storage.close();
});

test("two processes cannot use one saved session, and one that was killed is in nobody's way", async () => {
  writeFileSync(`${file}.lock`, String(process.ppid));
  await expect(server.connect({ saved: file })).rejects.toMatchObject({ code: "conflict" });

  writeFileSync(`${file}.lock`, String(2 ** 22 + 1));
  new SessionFile(file).close();
});

test("two sessions of one process cannot use one saved session", async () => {
  const { session } = await server.seated({ saved: file });
  for (const same of [file, join(file, "..", ".", "ada.session")])
    await expect(server.connect({ saved: same })).rejects.toMatchObject({ code: "conflict" });
  expect(server.sockets).toHaveLength(1);
  session.suspend();

  const next = new SessionFile(file);
  session.close();
  expect(() => new SessionFile(file)).toThrow("in use");
  next.close();
  next.close();
  new SessionFile(file).close();
});

test("a file that is closed twice does not free the lock of the one after it", () => {
  const first = new SessionFile(file);
  first.close();
  const second = new SessionFile(file);
  first.close();

  expect(() => new SessionFile(file)).toThrow("in use");
  second.close();
});

test("of two processes that find no lock, the slower one is refused", () => {
  const faster = new SessionFile(file);
  const fs = process.getBuiltinModule("node:fs");
  // What the slower one sees: no lock when it looks, and one when it writes its own.
  const seen = vi.spyOn(process, "getBuiltinModule").mockReturnValue({
    ...fs,
    readFileSync: vi.fn().mockReturnValueOnce("").mockReturnValue(`${process.ppid} 1`),
    rmSync: () => {},
  } as unknown as typeof fs);

  expect(() => new SessionFile(file)).toThrow(`in use by process ${process.ppid}`);
  seen.mockRestore();
  faster.close();
});

test("what could not be renamed is not saved, and neither is what follows until it can", () => {
  const first = new SessionFile(file);
  first.setItem("", "tab\nold");
  first.close();
  const fs = process.getBuiltinModule("node:fs");
  const renameSync = vi.fn(() => {
    throw new Error("EBUSY");
  });
  vi.spyOn(process, "getBuiltinModule").mockReturnValue({ ...fs, renameSync } as unknown as typeof fs);
  const storage = new SessionFile(file);

  for (const text of ["tab\none", "tab\none", "tab\ntwo"]) {
    expect(() => storage.setItem("", text)).toThrow("EBUSY");
    expect(storage.getItem()).toBe("tab\nold");
  }

  renameSync.mockImplementation(fs.renameSync as () => never);
  for (const text of ["tab\ntwo", "tab\nthree"]) {
    storage.setItem("", text);
    expect(storage.getItem()).toBe(text);
  }
  storage.close();
});

test("what is no saved session is refused and not overwritten", async () => {
  writeFileSync(file, "precious");

  await expect(server.connect({ saved: file })).rejects.toMatchObject({ code: "invalid" });

  expect(readFileSync(file, "utf8")).toBe("precious");
});

test("what cannot be stored is not sent, and later it goes on", async () => {
  vi.useFakeTimers();
  const { room } = await server.seated({ saved: file });
  const write = vi.spyOn(SessionFile.prototype, "setItem").mockImplementation(() => {
    throw new Error("no space left");
  });
  const numbers: number[] = [];
  room.send("move", { x: 1 }).then((number) => numbers.push(number));
  await vi.advanceTimersByTimeAsync(5000);
  expect(numbers).toEqual([]);
  expect(server.last.all("data")).toEqual([]);

  write.mockRestore();
  await vi.advanceTimersByTimeAsync(2000);

  expect(numbers).toEqual([1]);
  expect(server.last.all("data")).toHaveLength(1);
  vi.useRealTimers();
});

test("a token that cannot be stored is not presented", async () => {
  vi.useFakeTimers();
  await server.seated({ saved: file });
  const write = vi.spyOn(SessionFile.prototype, "setItem").mockImplementation(() => {
    throw new Error("no space left");
  });
  await server.last.end();
  await vi.advanceTimersByTimeAsync(100);
  // The first token is stored. The next one comes while the disk is full.
  await server.last.open();
  expect(server.last.all("hello")).toHaveLength(1);
  await server.last.say(welcome("s1", "t2", "resumed", [seatAt(0)], 1));
  await server.last.end();
  await vi.advanceTimersByTimeAsync(1000);
  const refused = server.last;
  await refused.open();
  expect(refused.heard).toEqual([]);
  expect(refused.closedWith).not.toBeNull();

  write.mockRestore();
  await vi.advanceTimersByTimeAsync(1000);
  expect(server.last).not.toBe(refused);
  await server.last.open();

  expect(server.last.heard[0]?.[2]).toMatchObject({ token: "t2" });
  expect(readFileSync(file, "utf8")).toContain("t2");
  vi.useRealTimers();
});

test("a session that cannot be stored again is given up in time", async () => {
  vi.useFakeTimers();
  const { session } = await server.seated({ saved: file });
  session.suspend();
  vi.spyOn(SessionFile.prototype, "setItem").mockImplementation(() => {
    throw new Error("no space left");
  });

  const connecting = server.connect({ saved: file, giveUpS: 5 });
  for (let second = 0; second < 10; second++) {
    await server.last.open();
    await vi.advanceTimersByTimeAsync(1000);
  }

  await expect(connecting).rejects.toThrow("within 5 s: the session cannot be saved");
  expect(server.sockets.slice(1).flatMap((socket) => socket.heard)).toEqual([]);
  expect(readFileSync(file, "utf8")).toContain("t1");
  vi.useRealTimers();
});

test("a client that fails leaves what is saved", async () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const { session } = await server.seated({ saved: file });
  session.suspend();
  const written = readFileSync(file, "utf8");
  vi.spyOn(ClientProtocol.prototype, "lost").mockImplementation(() => {
    throw new Error("a bug");
  });

  const connecting = server.connect({ saved: file });
  await vi.waitUntil(() => server.sockets.length === 2);
  await server.last.end();

  await expect(connecting).rejects.toMatchObject({ reason: "internal" });
  expect(readFileSync(file, "utf8")).toBe(written);
});
