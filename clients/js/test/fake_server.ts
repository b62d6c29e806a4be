/** A server and its sockets without a network: the test says what it says, and sees what it hears. */

import { vi } from "vitest";
import { MSGPACK } from "../src/codec.js";
import { type ConnectOptions, connect } from "../src/connect.js";
import type { Socket } from "../src/connection.js";
import type { ChannelInfo, FromClient, FromServer } from "../src/frames.js";
import { decode } from "../src/msgpack.js";
import type { SessionStorage } from "../src/storage.js";

export const URL = "ws://fake";

export const TERMS = {
  payload_bytes_max: 65536,
  window_messages_max: 1024,
  window_bytes_max: 262144,
  requests_in_flight_max: 16,
  ping_s: 5,
  silence_s: 16,
  grace_s: 30,
};

export class FakeSocket implements Socket {
  binaryType = "";
  bufferedAmount = 0;
  onopen: ((event: never) => void) | null = null;
  onmessage: ((event: never) => void) | null = null;
  onclose: ((event: never) => void) | null = null;
  onerror: ((event: never) => void) | null = null;
  readonly heard: FromClient[] = [];
  /** The sizes of the payloads that came. */
  readonly sizes: number[] = [];
  closedWith: [code: number | undefined, reason: string | undefined] | null = null;

  constructor(
    readonly url: string,
    readonly protocols: string[],
  ) {}

  // What the client does

  send(payload: string | Uint8Array): void {
    this.sizes.push(payload.length);
    this.heard.push(...(decode(payload as Uint8Array) as FromClient[]));
  }

  close(code?: number, reason?: string): void {
    this.closedWith = [code, reason];
  }

  // What the test does

  async open(): Promise<void> {
    this.onopen?.({} as never);
    await settled();
  }

  async say(...frames: FromServer[]): Promise<void> {
    await this.sayBytes(MSGPACK.payloads(frames as unknown as FromClient[], 1 << 20)[0] as Uint8Array);
  }

  async sayBytes(payload: Uint8Array): Promise<void> {
    this.onmessage?.({ data: payload.slice().buffer } as never);
    await settled();
  }

  async end(code = 1006, reason = ""): Promise<void> {
    this.onclose?.({ code, reason } as never);
    await settled();
  }

  /** The frames of one kind that came. */
  all(name: string): FromClient[] {
    return this.heard.filter((frame) => frame[0] === name);
  }
}

/** Let everything happen that needs no time. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 30; i++) await Promise.resolve();
}

export function welcome(
  session: string,
  token: string,
  outcome: string | object = "new",
  channels: Partial<ChannelInfo>[] = [],
  requests = 0,
  lineage = "",
): FromServer {
  const told = typeof outcome === "string" ? { kind: outcome } : outcome;
  const fields = ["welcome", session, "ada", token, told, TERMS, channels, requests, "ada.secret", lineage];
  return fields as unknown as FromServer;
}

export const SEAT: FromServer = ["seat", "joined", 1, 1, "r1", "arena", "seat"];
export const ROOM = { id: "r1", kind: "arena", players: 1, max_players: 8, phase: "lobby", properties: {} };
export const seatAt = (applied: number, generation = 1): ChannelInfo => ({
  channel: 1,
  generation,
  applied,
  room: "r1",
  kind: "arena",
  accepted: 0,
  purpose: "seat",
});

export class FakeServer {
  readonly sockets: FakeSocket[] = [];

  get last(): FakeSocket {
    return this.sockets.at(-1) as FakeSocket;
  }

  /** The session of a client that dials here; answer it, then await this. */
  connect(options: ConnectOptions = {}) {
    const { sockets } = this;
    class Dialled extends FakeSocket {
      constructor(url: string, protocols: string[]) {
        super(url, protocols);
        sockets.push(this);
      }
    }
    const nowhere = options.saved ? {} : { storage: null };
    const session = connect(URL, { WebSocket: Dialled, random: () => 0.5, ...nowhere, ...options });
    session.catch(() => {});
    return session;
  }

  /** A client that is welcome and has a seat on channel 1. */
  async seated(options: ConnectOptions = {}) {
    const connecting = this.connect(options);
    await vi.waitUntil(() => this.sockets.length);
    await this.last.open();
    await this.last.say(welcome("s1", "t1"));
    const session = await connecting;
    const joining = session.join("r1");
    await settled();
    await this.last.say(SEAT, ["reply", 1, ROOM, null]);
    return { session, room: await joining };
  }

  /** The client has dialled again; welcome it back. */
  async welcomeBack(token: string, applied: number, outcome: string | object = "resumed"): Promise<void> {
    await this.last.open();
    await this.last.say(welcome("s1", token, outcome, [seatAt(applied)], 1));
  }
}

export class FakeStorage implements SessionStorage {
  items = new Map<string, string>();
  isFull = false;

  getItem(key: string): string | null {
    return this.items.get(key) ?? null;
  }

  setItem(key: string, text: string): void {
    if (this.isFull) throw new Error("QuotaExceededError");
    this.items.set(key, text);
  }

  removeItem(key: string): void {
    this.items.delete(key);
  }

  /** What a duplicated or a refreshed tab finds. */
  copy(): FakeStorage {
    const copy = new FakeStorage();
    copy.items = new Map(this.items);
    return copy;
  }
}

/** A clock that stands still, no word on the console, and a server: before each test. */
export function standStill(): FakeServer {
  vi.useFakeTimers();
  vi.spyOn(console, "warn").mockImplementation(() => {});
  return new FakeServer();
}

/** After each test, everything as it was. */
export function goOn(): void {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  vi.useRealTimers();
}

/** Let time pass. */
export async function later(seconds: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(seconds * 1000);
  await settled();
}

/** A message of the room's. */
export const data = (seq: number, type: string, body: unknown, ack = 0): FromServer => [
  "data",
  1,
  seq,
  ack,
  type,
  body,
];
