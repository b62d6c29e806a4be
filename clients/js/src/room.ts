/** Rooms, as a client sees them: messages to and from the room of each seat, and the seats of a session. */

import { ASK, type Asked, Asks } from "./asks.js";
import { Emitter, type Off } from "./emitter.js";
import { Refused, Reset } from "./errors.js";
import type { SeatEvent } from "./events.js";
import type { Exchange } from "./exchange.js";
import type { ChangeListener, PathListener } from "./mirror.js";
import { argumentsOf, roomInfo } from "./schemas.js";
import { ClientSeat, gone, RoomInbox } from "./seat.js";
import { SharedState } from "./shared.js";
import type {
  AnswerOf,
  AnyMessages,
  BodyOf,
  Changes,
  Described,
  MineOf,
  NameOf,
  Patience,
  PlayerOf,
  RoomEvents,
  RoomInfo,
  SeatLeft,
  StateOf,
  Unconfirmed,
} from "./types.js";

/**
 * One seat, or a spectator's place. Messages wait until you listen: with the first `on`, at the end of that turn, they are handed out in order.
 *
 * A message counts as processed, and is acknowledged, when its listeners have returned.
 *
 * What the room shares is in `state`, `players` and `mine`: for the listeners of a message as at the end of that message's
 * turn, else as it is now. Never change it.
 */
export class ClientRoom<M extends Described = AnyMessages> {
  readonly #exchange: Exchange;
  readonly #seat: ClientSeat;
  readonly #inbox: RoomInbox;
  readonly #shared: SharedState;
  readonly channel: number;
  readonly #emitter = new Emitter();
  #isListening = false;
  #isDelivering = false;
  #isLeftTold = false;

  /** Rooms are made by `join`, `joinOrCreate` and `spectate`. */
  constructor(
    exchange: Exchange,
    seat: ClientSeat,
    shared: SharedState,
    readonly id: string,
    readonly kind: string,
  ) {
    this.#exchange = exchange;
    this.#seat = seat;
    this.#inbox = seat.inbox;
    this.#shared = shared;
    this.channel = seat.channel.number;
  }

  /** Whether we watch the room, without a seat. If `left.reason` is "seated", `session.room` is our seat. */
  get isSpectator(): boolean {
    return this.#seat.channel.purpose === "spectator";
  }

  /** Why the seat is gone; null while it is ours. */
  get left(): SeatLeft | null {
    return this.#inbox.left;
  }

  /** The room's entry in the directory when it was last told; null after a refresh, until it changes. */
  get info(): RoomInfo | null {
    return this.#seat.info;
  }

  /** The id of the player who is the host; empty if there is none, or it is not known yet. */
  get host(): string {
    return this.#seat.host;
  }

  // What became of what was sent and received: the same after a restart, if the session is saved

  /** The number of the last message that was sent; the first of a seat is 1. */
  get sent(): number {
    return this.#seat.channel.lastSeq;
  }

  /** The number of the last message that the server has applied, with all before it. */
  get accepted(): number {
    return this.#seat.channel.acked;
  }

  /** The messages that were sent and not accepted yet, with their numbers. They are on their way by themselves. */
  get unconfirmed(): Unconfirmed[] {
    const { codec } = this.#exchange.protocol;
    const kept = this.#seat.channel.keptMessages();
    const first = this.sent - kept.length + 1;
    return kept.map(([name, bytes], index) => {
      const sent = codec.decode(bytes);
      const [type, body] = name === ASK ? (sent as [string, unknown]) : [name, sent];
      return { number: first + index, type, body };
    });
  }

  /** The number of the last reliable message that was handed out; restarts with `holdfast.resynced`. */
  get received(): number {
    return this.#inbox.received;
  }

  // What the room shares

  /** The room's state; undefined until it has come. */
  get state(): StateOf<M> | undefined {
    return this.#shared.state as StateOf<M> | undefined;
  }

  /** What is shared of each player's data, by the player's id. */
  get players(): Readonly<Record<string, PlayerOf<M>>> {
    return this.#shared.players as Readonly<Record<string, PlayerOf<M>>>;
  }

  /** This player's own data, with what only they may see; undefined until it has come, and for spectators. */
  get mine(): MineOf<M> | undefined {
    return this.#shared.mine as MineOf<M> | undefined;
  }

  /**
   * Listen for changes of what is shared; the result stops it. With a path such as "state.pile" or "players.*", the
   * listener is called with the value, `undefined` if it is gone, and the key for each `*`. Without one, with all paths,
   * once for each change.
   */
  onChange(path: "state", listener: (state: StateOf<M> | undefined) => unknown): Off;
  onChange(path: "players.*", listener: (player: PlayerOf<M> | undefined, id: string) => unknown): Off;
  onChange(path: "mine", listener: (mine: MineOf<M> | undefined) => unknown): Off;
  // biome-ignore lint/suspicious/noExplicitAny: the game knows what is there
  onChange(path: string, listener: (value: any, ...keys: any[]) => unknown): Off;
  onChange(listener: (paths: (string | number)[][]) => unknown): Off;
  onChange(path: string | ((paths: never) => unknown), listener?: (...told: never[]) => unknown): Off {
    return this.#shared.onChange(path as string | ChangeListener, listener as PathListener);
  }

  // To the room

  /**
   * Send reliably: exactly once, in order, across drops and page refreshes. The body is taken as it is now.
   *
   * The promise is kept as soon as the message is in the outbox, and stored if the session is saved: at once, unless too
   * many are unacknowledged. Its result is the message's number. That is no answer of the room's: `flush` waits until
   * the server has applied it. It fails if the seat or the session is gone; that need not be caught.
   */
  send<T extends NameOf<M["toServer"]>>(type: T, ...[body]: BodyOf<M["toServer"][T]>): Promise<number> {
    const { protocol } = this.#exchange;
    const bytes = protocol.body(type, body ?? {});
    let number = 0;
    const kept = this.#exchange.until(() => {
      this.#checkSeat();
      this.#exchange.check();
      if (protocol.isFull(this.channel)) return false;
      number = protocol.push(this.channel, type, bytes);
      this.#exchange.wake();
      return true;
    });
    const sent = kept.then(() => this.#exchange.saved()).then(() => number);
    sent.catch(() => {});
    return sent;
  }

  /**
   * Send a message and wait for the answer: the body of what its handler returns, null if that is nothing.
   *
   * The message is sent reliably, and answered exactly once. It rejects with `Refused` as the room refuses it, also as
   * `not_seated` if the seat goes before the answer comes; with `Reset` if the answer is lost; with `TimedOut` after
   * `timeoutS` (30 s if you say nothing), or with the reason of an aborted `signal`: then the message is not taken back,
   * and its answer is dropped.
   */
  async ask<T extends NameOf<M["toServer"]>>(
    type: T,
    ...[body, patience]: [...BodyOf<M["toServer"][T]>, patience?: Patience]
  ): Promise<AnswerOf<M, T>> {
    const { protocol } = this.#exchange;
    const { asks } = this.#seat;
    const bytes = protocol.ask(type, body ?? {});
    const { timeoutS = protocol.limits.askS } = (patience ?? {}) as Patience;
    let number = 0;
    let asked: Asked | undefined;
    try {
      await this.#exchange.within({ ...patience, timeoutS }, `no answer to "${type}"`, () => {
        if (asked) return asked.isSettled;
        this.#checkSeat();
        this.#exchange.check();
        if (protocol.isFull(this.channel)) return false;
        asks.check();
        number = protocol.push(this.channel, ASK, bytes);
        asked = asks.open(number);
        this.#exchange.wake();
        return false;
      });
    } catch (error) {
      asks.abandon(number);
      throw error;
    }
    if (asked?.error) throw asked.error;
    return asked?.body as AnswerOf<M, T>;
  }

  /** Send unreliably: now or never; a newer one with the same type and key takes its place. */
  sendLatest<T extends NameOf<M["toServer"]>>(type: T, body: M["toServer"][T], key = ""): void {
    const bytes = this.#exchange.protocol.body(type, body);
    this.#checkSeat();
    this.#exchange.check();
    this.#exchange.protocol.pushLatest(this.channel, type, bytes, key);
    this.#exchange.wake();
  }

  /** Wait until the server has applied everything that was sent; refused as `not_seated` if the seat goes first. */
  async flush(): Promise<void> {
    await this.#exchange.until(() => {
      this.#checkSeat();
      return !this.#exchange.protocol.unacked(this.channel);
    });
  }

  /** Give the seat back, or watch no more. What was sent before arrives first; what was not handed out is dropped. */
  async leave(): Promise<void> {
    // The wire's request names no room: a seat that was taken later must not be left by mistake.
    if (!this.left && this.#exchange.protocol.channels.isNewest(this.channel)) {
      try {
        await this.#exchange.request({ operation: this.isSpectator ? "unspectate" : "leave", args: {} }, () => {});
      } catch (error) {
        const isGone = error instanceof Refused && error.code === "not_seated";
        if (!isGone && !(this.left && (error instanceof Refused || error instanceof Reset))) throw error;
      }
    }
    this.#inbox.discard({ reason: "left", message: "" });
    this.#seat.asks.end(gone({ reason: "left", message: "" }));
    this.#exchange.changed();
    this.deliver();
  }

  /** Change the room's entry in the directory: its host may, and its creator. */
  update(changes: Changes): Promise<RoomInfo> {
    return this.#exchange.request({ operation: "update", args: argumentsOf({ room: this.id, ...changes }) }, roomInfo);
  }

  // From the room

  /** Listen for one type of message, for one of Holdfast's own, or with "*" for all; the result stops it. */
  on<T extends NameOf<M["toClient"]>>(type: T, listener: (body: M["toClient"][T], type: T) => void): Off;
  on<T extends keyof RoomEvents>(type: T, listener: (body: RoomEvents[T], type: T) => void): Off;
  on(type: "*", listener: (body: unknown, type: string) => void): Off;
  on(type: string, listener: (body: never, type: never) => void): Off {
    if (!this.#isListening) {
      this.#isListening = true;
      // Not before this turn's other listeners are here too.
      queueMicrotask(() => this.deliver());
    }
    return this.#emitter.on(type, listener);
  }

  /**
   * Wait for the next message of one type. It goes to whoever waits and not to listeners; messages of other types stay
   * where they are, for listeners and the next `receive`. It counts as processed, and is acknowledged, when the next one
   * is asked for.
   */
  receive<T extends NameOf<M["toClient"]>>(type: T, patience?: Patience): Promise<M["toClient"][T]>;
  receive<T extends Exclude<keyof RoomEvents, "holdfast.left">>(type: T, patience?: Patience): Promise<RoomEvents[T]>;
  async receive(type: string, patience: Patience = {}): Promise<unknown> {
    let body: unknown;
    await this.#exchange.within(patience, `no "${type}"`, () => {
      const next = this.#inbox.next(type);
      if (!next) this.#checkSeat();
      body = next?.body;
      return next !== undefined;
    });
    return body;
  }

  /** Count what was received as processed now, not when more is asked for: the state goes on, too. */
  acknowledge(): void {
    this.#inbox.acknowledge();
  }

  /** @internal Hand out what is here. */
  deliver(): void {
    if (!this.#isListening || this.#isDelivering) return;
    this.#isDelivering = true;
    // What is left when a listener ends the session is not for this page: the next one that continues the session gets it.
    while (!this.#exchange.isClosedHere) {
      const entry = this.#inbox.next();
      if (!entry) break;
      this.#emit(entry.type, entry.body);
    }
    this.#isDelivering = false;
    if (this.left && !this.#isLeftTold) {
      this.#isLeftTold = true;
      this.#emit("holdfast.left", this.left);
    }
  }

  #emit(type: string, body: unknown): void {
    if (!this.#emitter.knows(type) && !this.#emitter.knows("*")) this.#exchange.unheard(type);
    this.#emitter.emit(type, body, type);
    this.#emitter.emit("*", body, type);
  }

  #checkSeat(): void {
    if (this.left) throw gone(this.left, this.isSpectator);
  }
}

interface Seated {
  room: ClientRoom;
  seat: ClientSeat;
  shared: SharedState;
}

/**
 * The seats of a session and the rooms it watched, by channel, oldest first. Only the newest seat and the newest place of
 * a spectator are taken, but the others can still be read.
 */
export class Seats {
  readonly #exchange: Exchange;
  readonly #immutable: boolean;
  #seats = new Map<number, Seated>();

  constructor(exchange: Exchange, immutable: boolean) {
    this.#exchange = exchange;
    this.#immutable = immutable;
    for (const event of exchange.protocol.channels.seats()) this.happened(event);
    // Of a saved session: seats that were gone before are not for this page any more.
    const unwanted = [...this.#seats.values()].filter(({ room }) => !exchange.protocol.channels.isNewest(room.channel));
    for (const { seat } of unwanted) seat.inbox.discard({ reason: "left", message: "" });
  }

  /** The room we have a seat in, or the one that we watch. */
  room(isSpectator = false): ClientRoom | null {
    return this.#newest(isSpectator, ({ room }) => !room.left)?.room ?? null;
  }

  /** The room in which a seat was just taken, or that we have just begun to watch. */
  roomOf<M extends Described>(info: RoomInfo, isSpectator = false, immutable?: boolean): ClientRoom<M> {
    const seated = this.#newest(isSpectator, ({ room }) => room.id === info.id);
    if (!seated) throw new Refused("not_seated", "the seat was gone before we heard of it; join again");
    // Else the room itself has told of a later one.
    if (!seated.seat.info) seated.seat.shown(info);
    seated.shared.mirror.immutable = immutable ?? seated.shared.mirror.immutable;
    return seated.room as unknown as ClientRoom<M>;
  }

  #newest(isSpectator: boolean, holds: (seated: Seated) => boolean): Seated | undefined {
    const wanted = (seated: Seated) => seated.room.isSpectator === isSpectator && holds(seated);
    return [...this.#seats.values()].reverse().find(wanted);
  }

  /** What was read has been dealt with. */
  acknowledge(): void {
    for (const { seat } of this.#seats.values()) seat.inbox.acknowledge();
  }

  /** There is a connection: get back what is not saved. */
  welcomed(): void {
    for (const { shared } of this.#seats.values()) shared.askIfLost();
  }

  /** Hand out what is here. */
  deliver(): void {
    for (const { room } of [...this.#seats.values()]) room.deliver();
  }

  /** Something came on a channel, or became of it. */
  happened(event: SeatEvent): void {
    const { room, seat, shared } = this.#seats.get(event.channel) ?? {};
    switch (event.is) {
      case "arrived":
        if (seat && shared) {
          seat.put(event);
          shared.waits(seat.inbox.changes);
        }
        // The seat was gone before we heard of it, so this will never be read.
        else this.#exchange.processed(event);
        break;
      case "latest_arrived":
        seat?.inbox.putLatest(event.type, event.body);
        break;
      case "channel_opened":
        if (event.purpose === "seat" || event.purpose === "spectator")
          this.#opened(event.channel, event.room, event.kind);
        break;
      case "restarted":
        seat?.inbox.restart(this.#exchange.protocol.restartOf(event.channel, event.generation));
        shared?.restarted();
        seat?.asks.lost(event.applied, event.accepted, event.reason || "resynced");
        break;
      case "channel_gone":
        seat?.inbox.end({ reason: event.reason, message: "" });
        seat?.asks.end(event.isReset ? new Reset(event.reason) : gone({ reason: event.reason, message: "" }));
        room?.deliver();
        this.#seats.delete(event.channel);
    }
  }

  #opened(number: number, id: string, kind: string): void {
    const { channels, limits } = this.#exchange.protocol;
    this.#seats = new Map([...this.#seats].filter(([each]) => channels.get(each)));
    const channel = channels.seat(number);
    // A spectator who gets a seat reads the same state.
    const same = [...this.#seats.values()].reverse().find(({ room }) => room.id === id);
    const shared = new SharedState(this.#exchange, channel, same?.shared.mirror.immutable ?? this.#immutable);
    const inbox = new RoomInbox(
      (arrived) => this.#exchange.processed(arrived),
      limits.latestKeptMax,
      channel.applied,
      (change) => shared.receive(change),
    );
    const seat = new ClientSeat(channel, inbox, new Asks(limits.asksMax));
    this.#seats.set(number, { room: new ClientRoom(this.#exchange, seat, shared, id, kind), seat, shared });
  }
}
