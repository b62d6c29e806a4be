/**
 * Subscriptions: what the server tells without being asked each time, of watched rooms, waitlists and placements.
 *
 * Notices are not repeated after a drop. So each subscription has a request, which is sent again after every resume and
 * every reset; its answer replaces what was missed.
 */

import { Emitter, type Off } from "./emitter.js";
import { type HoldfastError, Refused } from "./errors.js";
import type { Noticed } from "./events.js";
import type { ClientRequest, Exchange } from "./exchange.js";
import { argumentsOf, placementInfo, roomPage, roomsChanged, waitInfo } from "./schemas.js";
import type { PlacementInfo, RoomInfo, RoomsChanged, WaitInfo, WatchOptions } from "./types.js";

// How often to ask for our position, and whether the room is still there: only an offer comes unasked.
const POSITION_S = 5;

/** Something on the server that the client is told about. */
export abstract class Subscription {
  isAsked = false;
  isTold = false;
  /** Why nothing more will be known of it. */
  refusal: HoldfastError | null = null;

  constructor(
    readonly topic: string,
    readonly key: string,
    /** The question: how is it now? */
    readonly request: ClientRequest,
    /** The request that ends the subscription, if there is one. */
    public unsubscribe: ClientRequest | null = null,
  ) {}

  /** Whether it will stay as it is. */
  get isOver(): boolean {
    return false;
  }

  /** How it is now: the answer to the question. */
  abstract told(content: unknown): void;

  /** What has become of it, as a notice says; most of them say the same as the answer would. */
  noticed(content: unknown): void {
    this.told(content);
  }

  /** The question was refused, which ends the subscription unless a subclass knows better. */
  refused(refusal: Refused): void {
    this.refusal = refusal;
  }
}

/** The subscriptions of a session. */
export class Subscriptions {
  readonly #exchange: Exchange;
  #subscriptions: Subscription[] = [];

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  /** Subscribe, and wait for the first answer; a refusal is thrown, and what `check` throws. */
  async begin(subscription: Subscription, check = () => {}): Promise<void> {
    let isAsked = false;
    try {
      await this.#exchange.until(() => {
        check();
        if (!isAsked && this.#exchange.protocol.mayRequest) {
          isAsked = true;
          this.add(subscription);
          this.ask(subscription);
        }
        if (subscription.refusal) throw subscription.refusal;
        return subscription.isTold;
      });
    } catch (error) {
      this.end(subscription);
      throw error;
    }
  }

  /** Subscribe to something whose state is known already. */
  add(subscription: Subscription): void {
    if (!subscription.isOver) this.#subscriptions.push(subscription);
  }

  /** Ask how it is now; the answer comes in its own time. */
  ask(subscription: Subscription): void {
    subscription.isAsked = true;
    this.#exchange.post(subscription.request, `${subscription.topic} ${subscription.key}`, (result, error) => {
      subscription.isAsked = false;
      if (!this.#subscriptions.includes(subscription)) return;
      if (!error) {
        subscription.told(result);
        subscription.isTold = true;
      } else if (error instanceof Refused) {
        // After a reset the welcome follows at once, and with it the same question.
        subscription.refused(error);
      }
      this.#dropWhatIsOver();
    });
  }

  /** Unsubscribe, and tell the server unless another subscription needs the same. */
  end(subscription: Subscription): void {
    if (!this.#subscriptions.includes(subscription)) return;
    this.#subscriptions = this.#subscriptions.filter((each) => each !== subscription);
    const { topic, key, unsubscribe } = subscription;
    if (unsubscribe && !this.#matching(topic, key).length) this.#exchange.post(unsubscribe, `${topic} ${key}`);
  }

  // From the session

  /** The session is back: what would have been noticed in the meantime is lost. */
  welcomed(): void {
    this.#dropWhatIsOver();
    for (const subscription of this.#subscriptions) this.ask(subscription);
  }

  /** A notice came; it is ignored if there is no subscription for it any more. */
  noticed({ topic, key, body }: Noticed): void {
    for (const subscription of this.#matching(topic, key)) subscription.noticed(body);
    this.#dropWhatIsOver();
  }

  #matching(topic: string, key: string): Subscription[] {
    return this.#subscriptions.filter((subscription) => subscription.topic === topic && subscription.key === key);
  }

  #dropWhatIsOver(): void {
    this.#subscriptions = this.#subscriptions.filter((subscription) => !subscription.isOver && !subscription.refusal);
  }
}

/** A place in the waitlist of a full room. */
export class WaitlistPlace extends Subscription {
  readonly #exchange: Exchange;
  readonly #subscriptions: Subscriptions;
  #info: WaitInfo | null = null;
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(exchange: Exchange, subscriptions: Subscriptions, room: string, password: string | undefined) {
    super(
      "offer",
      room,
      { operation: "wait", args: { room, password } },
      { operation: "stop_waiting", args: { room } },
    );
    this.#exchange = exchange;
    this.#subscriptions = subscriptions;
    this.#timer = setInterval(() => {
      if (this.isTold && !this.isAsked && this.#info?.position) subscriptions.ask(this);
    }, POSITION_S * 1000);
  }

  /** Wait until a seat is kept for us; tell the position whenever it is another. */
  async offered(onPosition: ((position: number) => void) | undefined, check: () => void): Promise<void> {
    let position: number | null = null;
    await this.#exchange.until(() => {
      check();
      if (this.refusal) throw this.refusal;
      const now = this.#info?.position ?? null;
      const isNew = now && now !== position;
      position = now;
      if (isNew) onPosition?.(now);
      return now === 0;
    });
  }

  /** The seat that was kept for us is gone: back to the waitlist. */
  waitAgain(): void {
    this.#info = null;
    this.#subscriptions.ask(this);
  }

  /** Leave the waitlist; with the seat taken there is no place to give up. */
  end(isSeated: boolean): void {
    clearInterval(this.#timer);
    if (isSeated) this.unsubscribe = null;
    this.#subscriptions.end(this);
  }

  told(content: unknown): void {
    this.#info = waitInfo(content);
  }

  /** A player who is seated in the room already needs no other seat. */
  override refused(refusal: Refused): void {
    if (refusal.code === "already_seated") {
      this.#info = { room: this.key, position: 0, expiresInS: 0 };
      this.isTold = true;
    } else super.refused(refusal);
  }
}

class PlacementProgress extends Subscription {
  constructor(public info: PlacementInfo) {
    super("placement", info.id, { operation: "get_placement", args: { placement: info.id } });
  }

  override get isOver(): boolean {
    return this.info.status !== "pending";
  }

  told(content: unknown): void {
    const info = placementInfo(content);
    if (!this.isOver) this.info = info;
  }
}

/** One placement; made by `session.place`. */
export class Placement {
  readonly #exchange: Exchange;
  readonly id: string;
  readonly #progress: PlacementProgress;

  constructor(exchange: Exchange, subscriptions: Subscriptions, info: PlacementInfo) {
    this.#exchange = exchange;
    this.id = info.id;
    this.#progress = new PlacementProgress(info);
    subscriptions.add(this.#progress);
  }

  /** Its state, as last told by the server. */
  get info(): PlacementInfo {
    return this.#progress.info;
  }

  /** Wait until it is fulfilled, cancelled, timed out or failed: `status` says which, and `reason` why. */
  async done(): Promise<PlacementInfo> {
    await this.#exchange.until(() => {
      if (this.#progress.refusal) throw this.#progress.refusal;
      return this.#progress.isOver;
    });
    return this.info;
  }

  /** Give it up, if it is still pending. */
  async stop(): Promise<PlacementInfo> {
    const request = { operation: "stop_placement", args: { placement: this.id } };
    await this.#exchange.request(request, (answer) => this.#progress.told(answer));
    return this.info;
  }
}

class WatchedRooms extends Subscription {
  readonly #changed: (changes: RoomsChanged) => void;
  readonly rooms = new Map<string, RoomInfo>();

  constructor(id: string, kind: string | undefined, options: WatchOptions, changed: (changes: RoomsChanged) => void) {
    super(
      "rooms",
      id,
      { operation: "watch", args: argumentsOf({ id, kind, ...options }) },
      { operation: "unwatch", args: { id } },
    );
    this.#changed = changed;
  }

  /** The rooms that are found now: the application is told the difference. */
  told(content: unknown): void {
    const { rooms, hint } = roomPage(content);
    if (hint) console.warn(`holdfast: a watch found nothing: ${hint}`);
    const found = new Set(rooms.map((info) => info.id));
    const isOther = (info: RoomInfo) => JSON.stringify(info) !== JSON.stringify(this.rooms.get(info.id));
    this.#change(
      rooms.filter(isOther),
      [...this.rooms.keys()].filter((id) => !found.has(id)),
    );
  }

  override noticed(content: unknown): void {
    const { changed, removed } = roomsChanged(content);
    this.#change(changed, removed);
  }

  #change(changed: readonly RoomInfo[], removed: readonly string[]): void {
    for (const info of changed) this.rooms.set(info.id, info);
    for (const id of removed) this.rooms.delete(id);
    if (changed.length || removed.length) this.#changed({ changed, removed });
  }
}

/** `const watch = await session.watch("arena")`; the rooms are in `rooms`, kept up to date across drops. */
export class RoomWatch {
  readonly #subscriptions: Subscriptions;
  readonly #emitter = new Emitter();
  readonly #watched: WatchedRooms;

  /** Watches are made by `session.watch`. */
  constructor(
    exchange: Exchange,
    subscriptions: Subscriptions,
    id: string,
    kind: string | undefined,
    options: WatchOptions,
  ) {
    this.#subscriptions = subscriptions;
    this.#watched = new WatchedRooms(id, kind, options, (changes) => {
      this.#emitter.emit("change", changes);
      exchange.changed();
    });
  }

  /** The rooms by id, as they are now. */
  get rooms(): ReadonlyMap<string, RoomInfo> {
    return this.#watched.rooms;
  }

  /** Told what has changed; after a drop, all that has changed meanwhile as one. */
  on(_event: "change", listener: (changes: RoomsChanged) => void): Off {
    return this.#emitter.on("change", listener);
  }

  /** @internal */
  async open(): Promise<this> {
    await this.#subscriptions.begin(this.#watched);
    return this;
  }

  /** End the search. `rooms` stays as it was. */
  close(): void {
    this.#subscriptions.end(this.#watched);
  }
}
