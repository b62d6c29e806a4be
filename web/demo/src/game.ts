/** The game's state on this page: the room's last view, our unanswered commands, and the counts of messages. */

import type { ArenaMessages, Ship, View } from "./messages";

export const SIZE = 100;
/** How far a ship moves in one command. */
const STEP = 1.6;
const SAVED = "holdfast-demo-game";

export type Place = [number, number];
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
  ship = "";
  name = "";
  sent = 0;
  received = 0;
  views = new Tally();
  view: View | null = null;
  /** Commands that the room has not answered yet: our ship is drawn where they will take it. */
  private pending: Steer[] = [];

  /** What a reloaded page must know: our ship, and the last numbers. */
  constructor(private readonly storage: Storage) {
    const saved = storage.getItem(SAVED);
    if (saved !== null) {
      const { ship, name, sent, views } = JSON.parse(saved);
      Object.assign(this, { ship, name, sent });
      Object.assign(this.views, views);
    }
  }

  launched(message: ArenaMessages["toClient"]["launched"]): void {
    this.received++;
    this.ship = message.ship;
    this.name = message.name;
    this.sent = 0;
    this.pending = [];
    this.views = new Tally();
    this.views.last = message.view;
    this.save();
  }

  seen(view: View): void {
    this.received++;
    this.views.count(view.number);
    this.view = view;
    const applied = this.own?.steered.last ?? 0;
    this.pending = this.pending.filter((steer) => steer.number > applied);
    this.save();
  }

  /** The next command in this direction, each way from -1 to 1; to be sent at once. */
  steer([x, y]: Place): Steer {
    const length = Math.max(1, Math.hypot(x, y));
    this.sent++;
    const steer = { number: this.sent, ship: this.ship, dx: (x / length) * STEP, dy: (y / length) * STEP };
    this.pending.push(steer);
    this.save();
    return steer;
  }

  get own(): Ship | undefined {
    return this.view?.ships[this.ship];
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
    return this.views.lost + (this.own?.steered.lost ?? 0);
  }

  get duplicated(): number {
    return this.views.duplicated + (this.own?.steered.duplicated ?? 0);
  }

  /** The seat is gone: the next one starts from zero. */
  forget(): void {
    this.ship = "";
    this.view = null;
    this.pending = [];
    this.storage.removeItem(SAVED);
  }

  private save(): void {
    const { ship, name, sent, views } = this;
    this.storage.setItem(SAVED, JSON.stringify({ ship, name, sent, views }));
  }
}

function within(where: number): number {
  return Math.min(Math.max(where, 0), SIZE);
}
