/** What a session can ask of the server's directory: rooms to find, to make, to join and to wait for. */

import { HoldfastError, Refused } from "./errors.js";
import type { Exchange } from "./exchange.js";
import { argumentsOf, placementInfo, reservationInfo, roomInfo, roomInfos, roomPage } from "./infos.js";
import { Line } from "./line.js";
import type { News } from "./news.js";
import { Placement } from "./placement.js";
import { RESET } from "./protocol.js";
import type { ClientRoom } from "./room.js";
import type { Seats } from "./seats.js";
import type {
  AnyMessages,
  Changes,
  CreateOptions,
  Described,
  JoinOptions,
  JoinOrCreateOptions,
  PlaceOptions,
  ReservationInfo,
  ReserveOptions,
  RoomInfo,
  RoomPage,
  SearchOptions,
  WaitOptions,
  WatchOptions,
} from "./types.js";
import { RoomWatch } from "./watch.js";

/** A room by its id, or by its code as somebody typed it. */
export type RoomRef = string | { code: string };

const refOf = (ref: RoomRef) => (typeof ref === "string" ? { room: ref } : { code: ref.code });
const several = (names: string | string[] | undefined) => (typeof names === "string" ? [names] : names);

/** The calls of a session that are about rooms. What the server does not do is thrown as `Refused`, with a `code`. */
export abstract class Directory {
  protected abstract readonly exchange: Exchange;
  protected abstract readonly seats: Seats;
  protected abstract readonly news: News;
  #watches = 0;

  #ask<T>(operation: string, args: object, taken: (result: unknown) => T): Promise<T> {
    return this.exchange.request({ operation, args: argumentsOf(args) }, taken);
  }

  // To find and to make

  /** Make a room. Joining it is another call. */
  create(kind: string, options: CreateOptions = {}): Promise<RoomInfo> {
    return this.#ask("create", { kind, ...options }, roomInfo);
  }

  /** One page of the rooms for which `where` holds, oldest first unless `orderBy` says otherwise. */
  search(kind?: string, options: SearchOptions = {}): Promise<RoomPage> {
    return this.#ask("search", { kind, ...options, orderBy: several(options.orderBy) }, roomPage);
  }

  /** All of them, page after page as they are asked for. */
  async *searchAll(kind?: string, options: Omit<SearchOptions, "limit" | "cursor"> = {}): AsyncGenerator<RoomInfo> {
    let cursor = "";
    do {
      const page = await this.search(kind, { ...options, limit: 100, cursor });
      yield* page.rooms;
      cursor = page.cursor;
    } while (cursor);
  }

  /** A search that goes on. */
  watch(kind?: string, options: WatchOptions = {}): Promise<RoomWatch> {
    this.#watches += 1;
    return new RoomWatch(this.exchange, this.news, `w${this.#watches}`, kind, options).open();
  }

  /** Change a room's entry in the directory, as `room.update` does from within. */
  updateRoom(room: string, changes: Changes): Promise<RoomInfo> {
    return this.#ask("update", { room, ...changes }, roomInfo);
  }

  // To join

  /** Take a seat: by the room's id, or by its code. */
  join<M extends Described = AnyMessages>(ref: RoomRef, options: JoinOptions = {}): Promise<ClientRoom<M>> {
    return this.#ask("join", { ...refOf(ref), ...options }, (answer) => this.seats.roomOf<M>(roomInfo(answer)));
  }

  /** Take a seat in the oldest open room of a kind for which `where` holds, or in a new room. */
  joinOrCreate<M extends Described = AnyMessages>(
    kind: string,
    options: JoinOrCreateOptions = {},
  ): Promise<ClientRoom<M>> {
    const taken = (answer: unknown) => this.seats.roomOf<M>(roomInfo(answer));
    return this.#ask("join_or_create", { kind, ...options }, taken);
  }

  /** The rooms in which this player has a seat or a reserved one, from whichever device. */
  myRooms(): Promise<RoomInfo[]> {
    return this.#ask("mine", {}, roomInfos);
  }

  /** Take the seat that this player has, in the newest room if there are several; `not_found` if there is none. */
  async rejoin<M extends Described = AnyMessages>(): Promise<ClientRoom<M>> {
    if (this.seats.room) return this.seats.room as unknown as ClientRoom<M>;
    // Not where one is only reserved: anybody in that room may have done that.
    const rooms = await this.#ask("mine", { seated: true }, roomInfos);
    const newest = rooms.sort((one, other) => other.createdAt - one.createdAt)[0];
    if (!newest) throw new Refused("not_found", "you have no seat in any room");
    return this.join<M>(newest.id);
  }

  // To keep seats, and to wait for one

  /**
   * Keep seats for a party, all or none, in a room that you made or have a seat in. Asking again extends. They end with
   * your session.
   */
  reserve(ref: RoomRef, options: ReserveOptions = {}): Promise<ReservationInfo> {
    return this.#ask("reserve", { ...refOf(ref), ...options }, reservationInfo);
  }

  /** Give reserved seats back; without `players` your own. Those of others, if you made the room or are its host. */
  release(room: string, players?: string[]): Promise<void> {
    return this.#ask("release", { room, players }, () => {});
  }

  /** Stand in line for a seat, and take it when it is our turn. Whoever runs out of time or gives up leaves the line. */
  async waitForSeat<M extends Described = AnyMessages>(
    room: string,
    { password, timeoutS, onPosition, signal }: WaitOptions = {},
  ): Promise<ClientRoom<M>> {
    let gaveUp = "";
    const giveUp = (why: string) => () => {
      gaveUp = why;
      this.exchange.changed();
    };
    const timer =
      timeoutS === undefined ? undefined : setTimeout(giveUp(`no seat within ${timeoutS} s`), timeoutS * 1000);
    const onAbort = giveUp("given up");
    signal?.addEventListener("abort", onAbort);
    if (signal?.aborted) onAbort();
    const line = new Line(this.exchange, this.news, room, password);
    let isSeated = false;
    try {
      await this.news.begin(line, () => gaveUp !== "");
      while (true) {
        await line.offered(onPosition, () => gaveUp !== "");
        if (gaveUp) throw new HoldfastError(`${gaveUp} in room ${room}`);
        try {
          const joined = await this.join<M>(room, password === undefined ? {} : { password });
          isSeated = true;
          return joined;
        } catch (error) {
          if (!(error instanceof Refused) || !["room_full", "expired", RESET].includes(error.code)) throw error;
          // It was kept for so long only, and we were away.
          line.standAgain();
        }
      }
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      line.end(isSeated);
    }
  }

  // To have a room made

  /** Have a room made on the best node of a queue, with seats for these players. */
  place(queue: string, kind: string, options: PlaceOptions = {}): Promise<Placement> {
    const players = options.players?.map((player) => argumentsOf(typeof player === "string" ? { id: player } : player));
    return this.#ask(
      "start_placement",
      { queue, kind, ...options, players },
      (answer) => new Placement(this.exchange, this.news, placementInfo(answer)),
    );
  }
}
