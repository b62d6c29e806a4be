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

/** The type of messages that change what the room shares; nobody reads them as messages. */
export const STATE = "holdfast.state";

/** In a room's stream: messages could not be kept; what follows is the current state. */
export const RESYNCED = "holdfast.resynced";

/** What is said to whoever wants something of a seat that is gone. */
export const gone = ({ message, reason }: SeatLeft, isSpectator = false) =>
  new Refused("not_seated", `the ${isSpectator ? "place" : "seat"} is gone: ${message || reason}`);

interface Unread {
  place: number;
  type: string;
  body: unknown;
  /** Of a reliable one: what to acknowledge. */
  arrived: Arrived | null;
}

// What holds the changes after it back until it is read: not what is unreliable, and not the beginning of a stream.
const isBarrier = ({ type, arrived }: Unread) => type !== STATE && !!arrived?.seq;

/**
 * Read with `next`; what was read counts as processed when more is asked for, or by `acknowledge`.
 *
 * Changes of the state are applied in their order among the messages: whoever reads one sees the state of its turn, until
 * more is asked for. A change with nothing unread before it is applied when it comes.
 */
export class RoomInbox {
  readonly #processed: (arrived: Arrived) => void;
  readonly #apply: (change: unknown) => void;
  readonly #latestMax: number;
  /** The number of the last reliable message that was read. */
  received: number;
  /** Why there is nothing more to come, known before everything has been read. */
  left: SeatLeft | null = null;
  #entries: Unread[] = [];
  #place = 0;
  #latest = 0;
  /** How many changes of the state wait for messages before them. */
  changes = 0;
  #hasReader = false;
  #inHand: Arrived | null = null;
  // Processed before others that came earlier: an acknowledgement stands for all messages up to its number.
  #ahead: Arrived[] = [];
  #farewell: Arrived | null = null;
  #isDiscarding = false;

  constructor(
    processed: (arrived: Arrived) => void,
    latestMax: number,
    received: number,
    apply: (change: unknown) => void = () => {},
  ) {
    this.#processed = processed;
    this.#apply = apply;
    this.#latestMax = latestMax;
    this.received = received;
  }

  // For the reader

  /** The next message, or the next of one type, if there is one. */
  next(type?: string): Unread | undefined {
    this.#hasReader = true;
    this.acknowledge();
    const entry = this.#entries.find((each) => each.type !== STATE && (type === undefined || each.type === type));
    if (!entry) return undefined;
    this.#remove(entry);
    if (entry.arrived) {
      this.#inHand = entry.arrived;
      this.received = entry.arrived.seq;
      this.#applyBefore(entry.place);
    } else this.#latest -= 1;
    return entry;
  }

  #remove(entry: Unread): void {
    if (entry === this.#entries[0]) this.#entries.shift();
    else this.#entries.splice(this.#entries.indexOf(entry), 1);
  }

  #applyDue(): void {
    this.#applyBefore(this.#entries.find(isBarrier)?.place ?? Infinity);
  }

  #applyBefore(place: number): void {
    while (this.changes) {
      const change = this.#entries.find(({ type }) => type === STATE);
      if (!change?.arrived || change.place >= place) return;
      // Removed first: a listener may read messages.
      this.#remove(change);
      this.changes -= 1;
      this.#ahead.push(change.arrived);
      this.#apply(change.body);
    }
  }

  /** What was read has been dealt with. */
  acknowledge(): void {
    const inHand = this.#inHand;
    const farewell = this.#farewell;
    this.#inHand = null;
    if (inHand) this.#ahead.push(inHand);
    if (this.changes) this.#applyDue();
    if (this.#ahead.length) this.#process();
    if (farewell && !this.#entries.some((entry) => entry.arrived)) {
      this.#farewell = null;
      this.#processed(farewell);
    }
  }

  /** Process what has nothing unread before it. */
  #process(): void {
    // Nothing waits for a reader who may never come to hear of a restart.
    const isUnread = ({ arrived }: Unread) => arrived && (this.#hasReader || arrived.seq);
    const unread = this.#entries.find(isUnread)?.arrived?.seq ?? Infinity;
    const done = this.#ahead.filter(({ seq }) => seq < unread);
    if (!done.length) return;
    this.#ahead = this.#ahead.filter(({ seq }) => seq >= unread);
    for (const restart of done.filter(({ seq }) => !seq)) this.#processed(restart);
    const last = done.reduce((one, other) => (one.seq > other.seq ? one : other));
    if (last.seq) this.#processed(last);
  }

  /** Stop reading: everything unread, and everything still to come, counts as processed. */
  discard(left: SeatLeft): void {
    this.end(left);
    this.#isDiscarding = true;
    for (const { type, arrived } of this.#entries) if (type === STATE && arrived) this.#ahead.push(arrived);
    this.#entries = this.#entries.filter(({ type }) => type !== STATE);
    this.changes = 0;
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
    else this.#push(arrived.type, arrived.body, arrived);
  }

  /** A change of the state came. */
  putChange(arrived: Arrived): void {
    if (this.#isDiscarding) {
      this.#processed(arrived);
      return;
    }
    this.#push(STATE, arrived.body, arrived);
    this.changes += 1;
    if (!this.#hasReader) this.#letNewsWait();
    if (this.#inHand?.seq) return;
    this.#applyDue();
    if (!this.#inHand) this.#process();
  }

  /**
   * Holdfast's own messages, which nobody reads, must not stop the state: the newest are kept like unreliable ones. Not
   * so the word that messages could not be kept: it waits for its reader, on this page or the next.
   */
  #letNewsWait(): void {
    for (const entry of this.#entries) {
      if (!entry.arrived?.seq || entry.type === STATE) continue;
      if (!entry.type.startsWith("holdfast.")) return;
      this.#ahead.push(entry.arrived);
      entry.arrived = null;
      this.#latest += 1;
    }
    this.#trim();
  }

  #push(type: string, body: unknown, arrived: Arrived | null): void {
    this.#place += 1;
    this.#entries.push({ place: this.#place, type, body, arrived });
  }

  /** A reliable message came that nobody has to read: processed when those before it are. */
  passOver(arrived: Arrived): void {
    this.#ahead.push(arrived);
    if (!this.#inHand) this.#process();
  }

  /** An unreliable message came; the oldest gives way. */
  putLatest(type: string, body: unknown): void {
    if (this.#isDiscarding) return;
    this.#push(type, body, null);
    this.#latest += 1;
    this.#trim();
  }

  #trim(): void {
    for (; this.#latest > this.#latestMax; this.#latest -= 1)
      this.#remove(this.#entries.find((entry) => !entry.arrived) as Unread);
  }

  /** The stream was restarted: unread messages are out of date, and the reader is told. */
  restart(arrived: Arrived): void {
    this.#inHand = null;
    this.#ahead = [];
    this.#entries = [];
    this.#latest = this.changes = 0;
    if (this.#isDiscarding) this.#processed(arrived);
    else this.#push(RESYNCED, {}, arrived);
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
    if (arrived.type === STATE) {
      this.inbox.putChange(arrived);
      return;
    }
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
      if (this.info) {
        // The listing, with the name, follows.
        const hostName = this.info.host === this.host ? this.info.hostName : "";
        this.info = { ...this.info, host: this.host, hostName };
      }
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
