/**
 * What a client keeps of one seat: the messages that wait to be read, and the room's listing.
 *
 * Reliable messages are bounded by the server's window, which moves only when they are processed. Of the unreliable
 * ones only the newest are kept. Both are read in the order in which they came, or one type before the others.
 */

import type { Asks } from "./asks.js";
import type { Channel } from "./channel.js";
import { Refused } from "./errors.js";
import type { Arrived } from "./events.js";
import { LEFT } from "./protocol.js";
import { roomInfo } from "./schemas.js";
import type { MessageRefused, RoomInfo, SeatLeft } from "./types.js";

/** In a room's stream: messages could not be kept; what follows is the current state. */
export const RESYNCED = "holdfast.resynced";

/** What is said to whoever wants something of a seat that is gone. */
export const gone = ({ message, reason }: SeatLeft, isSpectator = false) =>
  new Refused("not_seated", `the ${isSpectator ? "place" : "seat"} is gone: ${message || reason}`);

interface Unread {
  type: string;
  body: unknown;
  /** Of a reliable one: what to acknowledge. */
  arrived: Arrived | null;
}

/** Read with `next`; what was read counts as processed when more is asked for, or by `acknowledge`. */
export class RoomInbox {
  readonly #processed: (arrived: Arrived) => void;
  readonly #latestMax: number;
  /** The number of the last reliable message that was read. */
  received: number;
  /** Why there is nothing more to come, known before everything has been read. */
  left: SeatLeft | null = null;
  #entries: Unread[] = [];
  #latest = 0;
  #inHand: Arrived | null = null;
  // Processed before others that came earlier: an acknowledgement stands for all messages up to its number.
  #ahead: Arrived[] = [];
  #farewell: Arrived | null = null;
  #isDiscarding = false;

  constructor(processed: (arrived: Arrived) => void, latestMax: number, received: number) {
    this.#processed = processed;
    this.#latestMax = latestMax;
    this.received = received;
  }

  // For the reader

  /** Whether a message of this type waits. */
  has(type: string): boolean {
    return this.#entries.some((entry) => entry.type === type);
  }

  /** The next message, or the next of one type, if there is one. */
  next(type?: string): Unread | undefined {
    this.acknowledge();
    const at = type === undefined ? 0 : this.#entries.findIndex((entry) => entry.type === type);
    const entry = at > 0 ? this.#entries.splice(at, 1)[0] : at === 0 ? this.#entries.shift() : undefined;
    if (entry?.arrived) {
      this.#inHand = entry.arrived;
      this.received = entry.arrived.seq;
    } else if (entry) this.#latest -= 1;
    return entry;
  }

  /** What was read has been dealt with. */
  acknowledge(): void {
    const inHand = this.#inHand;
    const farewell = this.#farewell;
    this.#inHand = null;
    if (inHand) this.#ahead.push(inHand);
    if (this.#ahead.length) this.#process();
    if (farewell && !this.#entries.some((entry) => entry.arrived)) {
      this.#farewell = null;
      this.#processed(farewell);
    }
  }

  /** Process what has nothing unread before it. */
  #process(): void {
    const unread = this.#entries.find((entry) => entry.arrived)?.arrived?.seq ?? Infinity;
    const done = this.#ahead.filter(({ seq }) => seq < unread);
    if (!done.length) return;
    this.#ahead = this.#ahead.filter(({ seq }) => seq >= unread);
    this.#processed(done.reduce((one, other) => (one.seq > other.seq ? one : other)));
  }

  /** Stop reading: everything unread, and everything still to come, counts as processed. */
  discard(left: SeatLeft): void {
    this.end(left);
    this.#isDiscarding = true;
    while (this.next());
  }

  // For the session

  /** A reliable message came. */
  put(arrived: Arrived): void {
    if (arrived.type === LEFT) {
      const { reason, message } = Object(arrived.body) as Partial<SeatLeft>;
      this.end({ reason: reason ?? "left", message: message ?? "" });
      this.#farewell = arrived;
      if (!this.#inHand) this.acknowledge();
    } else if (this.#isDiscarding) this.#processed(arrived);
    else this.#entries.push({ type: arrived.type, body: arrived.body, arrived });
  }

  /** A reliable message came that nobody has to read: processed when those before it are. */
  passOver(arrived: Arrived): void {
    this.#ahead.push(arrived);
    if (!this.#inHand) this.#process();
  }

  /** An unreliable message came; the oldest gives way. */
  putLatest(type: string, body: unknown): void {
    if (this.#isDiscarding) return;
    if (this.#latest >= this.#latestMax) {
      this.#entries.splice(
        this.#entries.findIndex((entry) => !entry.arrived),
        1,
      );
      this.#latest -= 1;
    }
    this.#entries.push({ type, body, arrived: null });
    this.#latest += 1;
  }

  /** The stream was restarted: unread messages are out of date, and the reader is told. */
  restart(arrived: Arrived): void {
    this.#inHand = null;
    this.#ahead = [];
    this.#entries = this.#isDiscarding ? [] : [{ type: RESYNCED, body: {}, arrived }];
    this.#latest = 0;
  }

  /** The seat is gone; what came before can still be read. */
  end(left: SeatLeft): void {
    this.left ??= left;
  }
}

/** One seat: its channel, its unread messages, and the room's listing as last told by the server. */
export class ClientSeat {
  info: RoomInfo | null = null;
  host = "";

  constructor(
    /** Kept when it is over: it still knows what became of what was sent. */
    readonly channel: Channel,
    readonly inbox: RoomInbox,
    readonly asks: Asks,
  ) {}

  /** A reliable message came. */
  put(arrived: Arrived): void {
    if (arrived.type === "holdfast.answer") {
      const { seq, type, body } = Object(arrived.body) as { seq: number; type?: string; body?: unknown };
      if (this.asks.answered(seq, body ?? null) || !type) this.inbox.passOver(arrived);
      // What the page before this one has asked: to this one it is a message like any other.
      else this.inbox.put({ ...arrived, type: String(type), body });
      return;
    }
    if (arrived.type === "holdfast.refused" && this.asks.refused(Object(arrived.body) as MessageRefused)) {
      this.inbox.passOver(arrived);
      return;
    }
    const body = Object(arrived.body) as { room?: unknown; player?: unknown };
    if (arrived.type === "holdfast.updated") this.shown(roomInfo(body.room));
    else if (arrived.type === "holdfast.host") {
      this.host = String(body.player ?? "");
      if (this.info) this.info = { ...this.info, host: this.host };
    }
    this.inbox.put(arrived);
    if (this.inbox.left) this.asks.end(gone(this.inbox.left));
    // `join` fails, so the application never sees this room.
    if (this.inbox.left?.reason === "join_failed") this.inbox.discard(this.inbox.left);
  }

  /** The room's listing is this now. */
  shown(info: RoomInfo): void {
    this.info = info;
    this.host = info.host;
  }
}
