/** The game on this page: what the room shares, our unanswered commands, and the counts of messages. */

import type { ClientRoom } from "holdfast";
import type { ArenaMessages } from "./messages";

export const SIZE = 100;
/** How far a ship moves in one command. */
const STEP = 1.6;
const SAVED = "holdfast-demo-game";

export type Place = readonly [number, number];
type Steer = ArenaMessages["toServer"]["steer"];

/** Counts numbered messages as they arrive, as the room does with ours. */
export class Tally {
  last = 0;
  lost = 0;
  duplicated = 0;

  count(number: number): void {
    if (number > this.last) {
      this.lost += number - this.last - 1;
      this.last = number;
    } else {
      this.duplicated++;
    }
  }
}

export class Game {
  sent = 0;
  /** The last command that will arrive, whatever happens. One that still waits is gone if the page is loaded again. */
  private accepted = 0;
  received = 0;
  found = new Tally();
  room: ClientRoom<ArenaMessages> | null = null;
  /** Whether `found` has begun: a new seat counts from the first number that it hears. */
  private hasBegun = false;
  /** Commands that the room has not answered yet: our ship is drawn where they will take it. */
  private pending: Steer[] = [];

  /** What a reloaded page must know: the last numbers. */
  constructor(private readonly storage: Storage) {
    const saved = storage.getItem(SAVED);
    if (saved !== null) {
      const { sent, found, hasBegun } = JSON.parse(saved);
      this.sent = this.accepted = sent;
      Object.assign(this.found, found);
      this.hasBegun = hasBegun;
    }
  }

  /** Follow a room: one that we have just joined, or were in before. */
  follow(room: ClientRoom<ArenaMessages>): void {
    this.room = room;
    room.onChange(() => this.changed());
    this.changed();
    room.on("collected", ({ number }) => {
      this.received++;
      if (!this.hasBegun) this.found.last = number - 1;
      this.hasBegun = true;
      this.found.count(number);
      this.save();
    });
  }

  private changed(): void {
    const { room, own } = this;
    if (room?.state === undefined || own === undefined) return;
    this.pending = this.pending.filter((steer) => steer.number > own.steered.last);
  }

  /** The next command in this direction, each way from -1 to 1; to be sent at once. */
  steer([x, y]: Place): Steer {
    const length = Math.max(1, Math.hypot(x, y));
    this.sent++;
    const steer = {
      number: this.sent,
      ship: this.own?.ship ?? "",
      dx: (x / length) * STEP,
      dy: (y / length) * STEP,
    };
    this.pending.push(steer);
    return steer;
  }

  /** The session has taken the command: it is delivered exactly once. */
  taken({ number }: Steer): void {
    this.accepted = number;
    this.save();
  }

  get own(): ClientRoom<ArenaMessages>["mine"] {
    return this.room?.mine;
  }

  /** Our ship's position after all unanswered commands. */
  get place(): Place | null {
    const own = this.own;
    if (own === undefined) return null;
    let [x, y] = own.place;
    for (const { dx, dy } of this.pending) {
      x = within(x + dx);
      y = within(y + dy);
    }
    return [x, y];
  }

  get lost(): number {
    return this.found.lost + (this.own?.steered.lost ?? 0);
  }

  get duplicated(): number {
    return this.found.duplicated + (this.own?.steered.duplicated ?? 0);
  }

  /** The seat is gone: the next one starts from zero. */
  forget(): void {
    this.room = null;
    this.sent = this.accepted = 0;
    this.found = new Tally();
    this.hasBegun = false;
    this.pending = [];
    this.storage.removeItem(SAVED);
  }

  private save(): void {
    const { accepted: sent, found, hasBegun } = this;
    this.storage.setItem(SAVED, JSON.stringify({ sent, found, hasBegun }));
  }
}

function within(where: number): number {
  return Math.min(Math.max(where, 0), SIZE);
}
