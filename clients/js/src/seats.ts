/** The seats of a session, as its client keeps them: a room and its unread messages for each channel. */

import { Refused } from "./errors.js";
import type { Arrived, SeatEvent } from "./events.js";
import type { Exchange } from "./exchange.js";
import { Inbox } from "./inbox.js";
import { roomInfo } from "./infos.js";
import { ClientRoom, Entry } from "./room.js";
import type { Described, RoomInfo } from "./types.js";

interface OneSeat {
  room: ClientRoom;
  inbox: Inbox;
  entry: Entry;
}

/** By channel, oldest first; a session has one at a time, the others can still be read. */
export class Seats {
  readonly #exchange: Exchange;
  #seats = new Map<number, OneSeat>();

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
    for (const event of exchange.protocol.channels.seats()) this.happened(event);
    // Of a saved session: seats that were gone before are not for this page any more.
    const unwanted = [...this.#seats.values()].filter(({ room }) => !exchange.protocol.channels.isNewest(room.channel));
    for (const { inbox } of unwanted) inbox.discard({ reason: "left", message: "" });
  }

  /** The room we have a seat in. */
  get room(): ClientRoom | null {
    return [...this.#seats.values()].reverse().find(({ inbox }) => !inbox.left)?.room ?? null;
  }

  /** The room that a seat was just taken in. */
  roomOf<M extends Described>(info: RoomInfo): ClientRoom<M> {
    const seat = [...this.#seats.values()].reverse().find(({ room }) => room.id === info.id);
    if (!seat) throw new Refused("not_seated", "the seat was gone before we heard of it; join again");
    // Else the room itself has told of a later one.
    if (!seat.entry.info) seat.entry.shown(info);
    return seat.room as unknown as ClientRoom<M>;
  }

  /** Hand out what is here. */
  deliver(): void {
    for (const { room } of [...this.#seats.values()]) room.deliver();
  }

  /** Something came on a channel, or became of it. */
  happened(event: SeatEvent): void {
    const seat = this.#seats.get(event.channel);
    switch (event.is) {
      case "arrived":
        this.#arrived(event, seat);
        break;
      case "latest_arrived":
        seat?.inbox.putLatest(event.type, event.body);
        break;
      case "seat_taken":
        this.#seated(event.channel, event.room, event.kind);
        break;
      case "restarted":
        seat?.inbox.restart(this.#exchange.protocol.restartOf(event.channel, event.generation));
        break;
      case "channel_gone":
        seat?.inbox.end({ reason: event.reason, message: "" });
        seat?.room.deliver();
        this.#seats.delete(event.channel);
    }
  }

  #arrived(event: Arrived, seat: OneSeat | undefined): void {
    if (!seat) {
      // Of a seat that was gone before we heard of it: nobody will ever read this.
      this.#exchange.processed(event);
      return;
    }
    const body = Object(event.body) as { room?: unknown; player?: unknown };
    if (event.type === "holdfast.updated") seat.entry.shown(roomInfo(body.room));
    else if (event.type === "holdfast.host") seat.entry.hosted(String(body.player ?? ""));
    seat.inbox.put(event);
    // `join` fails, so nobody gets to see this room.
    if (seat.inbox.left?.reason === "join_failed") seat.inbox.discard(seat.inbox.left);
  }

  #seated(channel: number, room: string, kind: string): void {
    const { channels, limits } = this.#exchange.protocol;
    this.#seats = new Map([...this.#seats].filter(([number]) => channels.get(number)));
    const stream = channels.seat(channel);
    const inbox = new Inbox((arrived) => this.#exchange.processed(arrived), limits.latestKeptMax, stream.applied);
    const entry = new Entry();
    this.#seats.set(channel, { room: new ClientRoom(this.#exchange, inbox, entry, stream, room, kind), inbox, entry });
  }
}
