/** A search that goes on: the rooms as they are, and what changes. */

import { Emitter, type Off } from "./emitter.js";
import type { Exchange } from "./exchange.js";
import { argumentsOf, roomPage, roomsChanged } from "./infos.js";
import { Follower, type News } from "./news.js";
import type { RoomInfo, RoomsChanged, WatchOptions } from "./types.js";

class Board extends Follower {
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
    const { rooms } = roomPage(content);
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
  readonly #news: News;
  readonly #emitter = new Emitter();
  readonly #board: Board;

  /** Watches are made by `session.watch`. */
  constructor(exchange: Exchange, news: News, id: string, kind: string | undefined, options: WatchOptions) {
    this.#news = news;
    this.#board = new Board(id, kind, options, (changes) => {
      this.#emitter.emit("change", changes);
      exchange.changed();
    });
  }

  /** The rooms by id, as they are now. */
  get rooms(): ReadonlyMap<string, RoomInfo> {
    return this.#board.rooms;
  }

  /** Told what has changed; after a drop, all that has changed meanwhile as one. */
  on(_event: "change", listener: (changes: RoomsChanged) => void): Off {
    return this.#emitter.on("change", listener);
  }

  /** @internal */
  async open(): Promise<this> {
    await this.#news.begin(this.#board);
    return this;
  }

  /** End the search. `rooms` stays as it was. */
  close(): void {
    this.#news.end(this.#board);
  }
}
