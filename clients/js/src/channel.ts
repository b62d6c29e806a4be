/**
 * A channel: two gapless message streams, such as those between a seat and its room. The same rules as on the server.
 *
 * Outward, messages get the numbers 1, 2, 3 … and are kept until the server has acknowledged them; at most a window of
 * them is in flight. Inward, a message is accepted if it is the next one, so the memory against doubles is one number:
 *
 *     number              verdict
 *     accepted + 1        new: accept it
 *     <= accepted         a double: acknowledge again, do nothing else
 *     > accepted + 1      a gap: the server is broken, the connection closes and we resume
 */

import { Raw } from "./codec.js";
import { ProtocolError } from "./errors.js";
import type { Data } from "./frames.js";
import type { Limits } from "./limits.js";

/** What a message weighs beside its body. */
export const MESSAGE_OVERHEAD_BYTES = 64;

/** A message that is kept: its name and its body's bytes. */
export type Kept = [name: string, body: Uint8Array];

const weight = (kept: Kept) => kept[1].length + MESSAGE_OVERHEAD_BYTES;
const weightOf = (messages: Kept[]) => messages.reduce((sum, kept) => sum + weight(kept), 0);

export class Channel {
  #limits: Limits;
  generation = 1;
  // Outward: numbers up to `acked` are done with, up to `sent` are in flight, up to `lastSeq` are kept.
  lastSeq = 0;
  acked = 0;
  sent = 0;
  #sentBefore = 0;
  #filledTo = 0;
  #messages: Kept[] = [];
  #bytes = 0;
  overflowed = false;
  // Inward.
  accepted = 0;
  applied = 0;
  ackSent = 0;

  constructor(
    readonly number: number,
    limits: Limits,
    /** What it is for: "seat", "spectator" or "session". */
    readonly purpose = "seat",
  ) {
    this.#limits = limits;
  }

  /** Keep to these limits from now on. */
  agree(limits: Limits): void {
    this.#limits = limits;
  }

  // Outward

  /** Messages not yet acknowledged, sent or not. */
  get kept(): number {
    return this.#messages.length;
  }

  /** Whether one more message might overflow the stream: the sender waits. */
  get isFull(): boolean {
    const { windowMessagesMax, windowBytesMax } = this.#limits;
    return this.kept >= windowMessagesMax || this.#bytes >= windowBytesMax || this.acked < this.#filledTo;
  }

  /** Give a message its number and keep it; false if the stream has overflowed and keeps nothing. */
  push(name: string, body: Uint8Array): boolean {
    if (this.overflowed) return false;
    this.#messages.push([name, body]);
    this.lastSeq += 1;
    this.#bytes += body.length + MESSAGE_OVERHEAD_BYTES;
    if (this.#bytes <= this.#limits.keptBytesMax && this.kept <= this.#limits.keptMessagesMax) return true;
    this.overflowed = true;
    this.#keepNothing();
    this.lastSeq = this.sent;
    return false;
  }

  #keepNothing(): void {
    this.#messages = [];
    this.#bytes = 0;
  }

  /** The messages that may be written now, in order; they count as sent. */
  take(): Data[] {
    const inFlight = this.sent - this.acked;
    let inFlightBytes = weightOf(this.#messages.slice(0, inFlight));
    const taken: Data[] = [];
    for (const kept of this.#messages.slice(inFlight, this.#limits.windowMessagesMax)) {
      if (inFlightBytes >= this.#limits.windowBytesMax) break;
      inFlightBytes += weight(kept);
      this.sent += 1;
      taken.push(["data", this.number, this.sent, this.applied, kept[0], new Raw(kept[1])]);
    }
    if (taken.length) this.ackSent = this.applied;
    return taken;
  }

  /** The server has applied everything up to this number. */
  acknowledge(ack: number): void {
    if (ack > this.sent) {
      // What went to an earlier connection may be acknowledged before a resume has sent it again.
      if (ack > this.#sentBefore) throw new ProtocolError(`message ${ack} was acknowledged but never sent`, "sequence");
      this.sent = Math.min(ack, this.lastSeq);
    }
    const gone = this.#messages.splice(0, Math.max(0, ack - this.acked));
    this.acked += gone.length;
    this.#bytes -= weightOf(gone);
  }

  /** A new connection continues after `received`: how many messages it will be sent, or null if they are gone. */
  resume(generation: number, received: number | null): number | null {
    if (this.overflowed || received === null || generation !== this.generation) return null;
    if (received < this.acked || received > this.lastSeq) return null;
    this.#sentBefore = Math.max(this.#sentBefore, this.sent);
    this.sent = received;
    this.acknowledge(received);
    this.ackSent = this.applied;
    return this.lastSeq - received;
  }

  /** Restart the outward stream. Only servers do this; here for the vectors, which are for both ends. */
  resync(): void {
    this.generation += 1;
    this.lastSeq = this.acked = this.sent = this.#sentBefore = 0;
    this.#keepNothing();
    this.overflowed = false;
    this.ackSent = this.applied;
  }

  /** The server applied more than we remember sending (our state is older): never use those numbers again. */
  skipTo(applied: number): void {
    if (applied > this.lastSeq) {
      this.#keepNothing();
      this.lastSeq = this.acked = this.sent = applied;
    }
  }

  /** The server accepted more than we remember sending: keep those places, and let it acknowledge them. */
  fillTo(accepted: number, name: string, body: Uint8Array): void {
    if (accepted > this.lastSeq) this.#filledTo = Math.max(this.#filledTo, accepted);
    while (this.lastSeq < accepted && this.push(name, body)) this.#sentBefore = this.lastSeq;
  }

  /** Everything unacknowledged, in order: what a saved state needs. */
  keptMessages(): Kept[] {
    return [...this.#messages];
  }

  /**
   * Go on from a saved state: the numbers up to `lastSeq` are given out, the last of them still kept. The place of
   * `filledTo` is the last of those that `fillTo` has kept.
   */
  restoreOutward(lastSeq: number, kept: Kept[], filledTo = 0): void {
    this.lastSeq = this.#sentBefore = lastSeq;
    this.#filledTo = filledTo;
    this.acked = this.sent = lastSeq - kept.length;
    this.#messages = [...kept];
    this.#bytes = weightOf(kept);
  }

  // Inward

  /** Whether a message that came in is the next one; false for a double, `ProtocolError` for a gap. */
  accept(seq: number): boolean {
    if (seq === this.accepted + 1) {
      if (seq - this.applied > this.#limits.windowMessagesMax)
        throw new ProtocolError("more messages in flight than the window allows", "sequence");
      this.accepted = seq;
      return true;
    }
    if (seq > this.accepted)
      throw new ProtocolError(`message ${this.accepted + 1} is missing before ${seq}`, "sequence");
    this.ackSent = -1;
    return false;
  }

  /** Whether something was applied that the server does not know of yet. */
  get owesAck(): boolean {
    return this.ackSent < this.applied;
  }

  /** The server restarted its stream. */
  restartInward(generation: number): void {
    this.generation = generation;
    this.accepted = this.applied = this.ackSent = 0;
  }
}
