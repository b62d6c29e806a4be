/**
 * The channels of a session, as its client keeps them: opened by seats, continued by resumes, over when all is read.
 *
 * A session has at most one open channel for each purpose, so of several only the newest has a seat behind it; the others
 * still owe unread messages.
 */

import { Channel } from "./channel.js";
import { ProtocolError, Refused } from "./errors.js";
import type { Restarted, SeatEvent } from "./events.js";
import { type Ack, type ChannelInfo, type Data, POSITIONS_MAX, type Position, type Seat } from "./frames.js";
import type { Limits } from "./limits.js";
import type { Reason } from "./reasons.js";
import type { SavedChannel, SavedState } from "./saved.js";

// A place in the outbox for a message that an earlier page sent and we do not remember. The server has it, or it would
// not say so; should it have lost it, this is refused. The body is a number in every codec.
const FORGOTTEN = ["holdfast.forgotten", Uint8Array.of(0x30)] as const;

export class Channels {
  #limits: Limits;
  #open = new Map<number, Channel>();
  readonly #rooms = new Map<number, readonly [room: string, kind: string]>();
  // Processed to the end, but the server may not have heard so: the next hello tells it again.
  #finishedOnes = new Map<number, Position>();
  // Restarted, and the reader has not been told: the gap must be declared, on this page or the next.
  readonly #restarted = new Set<number>();
  // The whole view of what the room shares has come, here or on the page before.
  readonly #sharing = new Set<number>();
  // The page before this one had read them, this one knows nothing: the next hello asks for the state.
  readonly #blank = new Set<number>();
  // By purpose, the number of the newest channel, which may be over.
  #newest = new Map<string, number>();
  #lastNumber = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  [Symbol.iterator](): Iterator<Channel> {
    return this.#open.values();
  }

  /** The channel with this number; undefined if it is over. */
  get(number: number): Channel | undefined {
    return this.#open.get(number);
  }

  /** The channel to send on; refused as `not_seated` if it is over. */
  seat(number: number): Channel {
    const channel = this.#open.get(number);
    if (!channel) throw new Refused("not_seated", "the seat is gone; join again");
    return channel;
  }

  /** Whether there is or was such a channel. */
  wasOpened(number: number): boolean {
    return number <= this.#lastNumber;
  }

  /** Whether this channel was opened, and none with its purpose after it. */
  isNewest(number: number): boolean {
    return [...this.#newest.values()].includes(number);
  }

  /** The open channels as events, for a session that was just loaded. */
  seats(): SeatEvent[] {
    const events: SeatEvent[] = [];
    for (const [channel, [room, kind]] of this.#rooms) {
      const { generation, purpose } = this.seat(channel);
      events.push({ is: "channel_opened", channel, room, kind, purpose });
      if (this.#restarted.has(channel))
        events.push({ is: "restarted", channel, generation, applied: 0, accepted: 0, reason: "" });
    }
    return events;
  }

  /** What may be written now: messages within the window, which carry acknowledgements, or those alone. */
  outgoing(withAcks: boolean): (Data | Ack)[] {
    const frames: (Data | Ack)[] = [];
    // Where the window is small, it must not close before enough was processed to say so.
    const due = Math.min(this.#limits.ackMessages, Math.max(1, this.#limits.windowMessagesMax >> 1));
    for (const channel of this) {
      frames.push(...channel.take());
      if (channel.owesAck && (withAcks || channel.applied - channel.ackSent >= due)) {
        channel.ackSent = channel.applied;
        frames.push(["ack", channel.number, channel.applied]);
      }
    }
    return frames;
  }

  /** Whether something was processed that the server does not know of yet. */
  get oweAck(): boolean {
    return [...this].some((channel) => channel.owesAck);
  }

  /** How far each channel got: what a hello says to come back. */
  positions(): Position[] {
    // The open ones are needed most, and one of them may be the oldest of all.
    const order = [...this].sort((one, other) => this.#rank(one) - this.#rank(other));
    const processed = order.map(({ number, generation, applied, acked, accepted }): Position => {
      const position = { channel: number, generation, acked, ...(accepted > applied ? { accepted } : {}) };
      return this.#blank.has(number) ? position : { ...position, received: applied };
    });
    return [...this.#finishedOnes.values(), ...processed]
      .slice(-POSITIONS_MAX)
      .sort((one, other) => one.channel - other.channel);
  }

  #rank({ number }: Channel): number {
    return this.isNewest(number) ? number : number - Number.MAX_SAFE_INTEGER;
  }

  // A channel's life

  /** A channel was opened, or its stream was restarted. */
  onSeat([, , number, generation, room, kind, purpose]: Seat): SeatEvent[] {
    // Channels of one purpose are opened in order; one of another may have waited longer until it was saved.
    if (!this.#open.has(number) && number > (this.#newest.get(purpose) ?? 0))
      return this.#begin({ channel: number, generation, applied: 0, room, kind, accepted: 0, purpose });
    const channel = this.#open.get(number);
    if (!channel || channel.generation === generation) throw new ProtocolError(`channel ${number} was opened twice`);
    const { acked: applied, sent: accepted } = channel;
    return [this.#restart(channel, { is: "restarted", channel: number, generation, applied, accepted, reason: "" })];
  }

  /** The channel's last message was processed. */
  finish(channel: Channel): void {
    const { number, generation, applied } = channel;
    this.#forget(number);
    this.#finishedOnes.set(number, { channel: number, generation, received: applied });
    for (const oldest of this.#finishedOnes.keys()) {
      if (this.#finishedOnes.size <= this.#limits.closingChannelsMax) break;
      this.#finishedOnes.delete(oldest);
    }
  }

  #begin(info: ChannelInfo): SeatEvent[] {
    const { channel: number, room, kind, purpose } = info;
    this.#lastNumber = Math.max(this.#lastNumber, number);
    // Without a room, the seat was gone before we heard of it: its messages are of no use to anybody.
    const isOpen = room !== "" || purpose === "session";
    if (isOpen) this.#newest.set(purpose, Math.max(this.#newest.get(purpose) ?? 0, number));
    // The server drops old channels that are not read, and so do we.
    const ended = [...this.#open.keys()].filter((each) => !this.isNewest(each));
    const events = this.#drop(ended.slice(0, Math.max(0, ended.length - this.#limits.closingChannelsMax)), "left");
    const channel = new Channel(number, this.#limits, purpose);
    channel.generation = info.generation;
    this.#open.set(number, channel);
    if (isOpen) {
      this.#rooms.set(number, [room, kind]);
      events.push({ is: "channel_opened", channel: number, room, kind, purpose });
    }
    return events;
  }

  #drop(numbers: number[], reason: Reason, isReset = false): SeatEvent[] {
    return numbers.map((channel) => {
      this.#forget(channel);
      return { is: "channel_gone", channel, reason, isReset };
    });
  }

  #forget(number: number): void {
    this.#open.delete(number);
    this.#rooms.delete(number);
    this.#restarted.delete(number);
    this.#blank.delete(number);
    this.#sharing.delete(number);
  }

  // A session's life

  /** The server's terms are these. */
  agree(limits: Limits): void {
    if (JSON.stringify(limits) === JSON.stringify(this.#limits)) return;
    this.#limits = limits;
    for (const channel of this) channel.agree(limits);
  }

  /** A new connection continues the session: bring each channel to where the server has it. */
  resume(infos: ChannelInfo[], reason: Reason): SeatEvent[] {
    const known = new Set(infos.map((info) => info.channel));
    const gone = [...this.#open.keys()].filter((number) => !known.has(number));
    // Without their last message, which could not be kept: nobody knows why, only that it was not our doing.
    const events = this.#drop(gone, reason || "dropped");
    // Read to its end after our hello was sent: what the server repeats of it is passed over.
    for (const number of [...this.#finishedOnes.keys()]) if (!known.has(number)) this.#finishedOnes.delete(number);
    for (const info of infos) {
      if (this.#finishedOnes.has(info.channel)) continue;
      const channel = this.#open.get(info.channel);
      if (!channel) events.push(...this.#begin(info));
      // Also if it began anew before we heard of it, where no state says what we missed.
      const isMissed = !channel && info.purpose === "session" && info.generation > 1;
      if (isMissed || (channel && info.generation !== channel.generation)) {
        const { channel: number, generation, applied } = info;
        const accepted = Math.max(applied, info.accepted);
        const restarted = { is: "restarted", channel: number, generation, applied, accepted, reason } as const;
        events.push(this.#restart(this.seat(number), restarted));
      }
      this.#continue(this.seat(info.channel), info);
    }
    this.#blank.clear();
    return events;
  }

  /** The server's state is older than ours: it knows only these channels, and may reuse the others' numbers. */
  rollBack(infos: ChannelInfo[], reason: Reason): SeatEvent[] {
    const known = new Map(infos.map((info) => [info.channel, info]));
    const others = [...this].filter((channel) => !this.#isSame(channel, known.get(channel.number)));
    const events = this.#drop(
      others.map(({ number }) => number),
      reason,
      true,
    );
    this.#finishedOnes.clear();
    this.#lastNumber = Math.max(0, ...this.#open.keys());
    const open = [...this.#rooms.keys()].sort((one, other) => one - other);
    this.#newest = new Map(open.map((number) => [this.seat(number).purpose, number]));
    return events;
  }

  #isSame({ number, purpose }: Channel, info: ChannelInfo | undefined): boolean {
    if (!info) return false;
    // The server does not say what a channel was for whose seat is gone.
    if (!info.room && info.purpose !== "session") return purpose !== "session";
    return purpose === info.purpose && (this.#rooms.get(number)?.[0] ?? info.room) === info.room;
  }

  #continue(channel: Channel, info: ChannelInfo): void {
    if (info.applied < channel.acked)
      throw new ProtocolError(`the server has forgotten messages that it had acknowledged: ${channel.acked}`);
    if (channel.resume(channel.generation, info.applied) === null) channel.skipTo(info.applied);
    if (info.accepted - info.applied > this.#limits.windowMessagesMax)
      throw new ProtocolError("the server has taken more messages than its window allows");
    channel.fillTo(info.accepted, ...FORGOTTEN);
  }

  #restart(channel: Channel, restarted: Restarted): SeatEvent {
    channel.restartInward(restarted.generation);
    this.#restarted.add(channel.number);
    return restarted;
  }

  /** The reader was told that the stream was restarted. */
  read(channel: Channel): void {
    this.#restarted.delete(channel.number);
  }

  /** The whole view of what the room shares has come. */
  shares(number: number): void {
    if (this.#open.has(number)) this.#sharing.add(number);
  }

  /** Whether it has come before, here or on the page before. */
  isSharing(number: number): boolean {
    return this.#sharing.has(number);
  }

  /** The session is a new one: none of these channels is part of it, and numbers start over. */
  clear(reason: Reason): SeatEvent[] {
    this.#finishedOnes.clear();
    this.#newest.clear();
    this.#lastNumber = 0;
    return this.#drop([...this.#open.keys()], reason, true);
  }

  // Another page

  /** The open channels, as they would go on elsewhere. */
  save(): SavedChannel[] {
    return [...this].map((channel) => {
      const [room, kind] = this.#rooms.get(channel.number) ?? ["", ""];
      return {
        number: channel.number,
        generation: channel.generation,
        received: channel.applied,
        lastSeq: channel.lastSeq,
        room,
        kind,
        outbox: channel.keptMessages(),
        isRestarted: this.#restarted.has(channel.number),
        purpose: channel.purpose,
        isSharing: this.#sharing.has(channel.number),
      };
    });
  }

  /** By purpose, the number of the newest channel, as it is saved. */
  newest(): Record<string, number> {
    return Object.fromEntries(this.#newest);
  }

  /** The channels that are over, as far as the server may not know. */
  finished(): Position[] {
    return [...this.#finishedOnes.values()];
  }

  /** Go on from a saved state; messages that were received but not processed will be sent again. */
  load(state: SavedState, isBlank: boolean): void {
    for (const saved of state.channels) {
      const { number, generation, received, room, kind, purpose = "seat" } = saved;
      this.#begin({ channel: number, generation, applied: 0, room, kind, accepted: 0, purpose });
      const channel = this.seat(number);
      channel.accepted = channel.applied = channel.ackSent = received;
      channel.restoreOutward(saved.lastSeq, saved.outbox, lastForgotten(saved));
      if (saved.isRestarted) this.#restarted.add(number);
      if (saved.isSharing) this.#sharing.add(number);
    }
    this.#finishedOnes = new Map(state.finished.map((position) => [position.channel, position]));
    for (const [purpose, number] of Object.entries(state.newest ?? {})) this.#newest.set(purpose, number);
    this.#lastNumber = Math.max(this.#lastNumber, ...this.#finishedOnes.keys(), ...this.#newest.values());
    // A session's own stream has no state that could be asked for.
    for (const { number, purpose } of isBlank ? this : [])
      if (purpose !== "session" && this.isNewest(number)) this.#blank.add(number);
  }
}

/** The number of the last message whose place alone is kept; 0 if there is none. */
function lastForgotten({ lastSeq, outbox }: SavedChannel): number {
  const at = outbox.map(([name]) => name).lastIndexOf(FORGOTTEN[0]);
  return at < 0 ? 0 : lastSeq - outbox.length + 1 + at;
}
