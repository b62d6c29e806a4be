/** The types of the public surface: what messages, rooms and outcomes look like. */

import type { Reason } from "./reasons.js";

/**
 * What one kind of room and its clients say to each other: bodies by the message's wire name.
 *
 * `holdfast types game.py --lang ts` writes an interface like this for each kind of room; use it as
 * `session.join<ArenaMessages>(id)`.
 */
export interface Messages {
  toServer: Record<string, object>;
  toClient: Record<string, object>;
  /** By the name of a message to the server: the body of the answer to it, if its handler returns one. */
  answers?: Record<string, object | null>;
  /** What a player joins with, if the room asks for something. */
  options?: object;
  /** The version of the game's messages, if its author counts them. */
  version?: string;
  /** What the room shares of its state. */
  state?: object;
  /** What it shares of each player's data. */
  player?: object;
  /** What it shares of a player's data with that player, if that is more. */
  mine?: object;
}

/** The least that describes messages: interfaces will do. */
export interface Described {
  toServer: object;
  toClient: object;
  answers?: object;
}

/** For rooms without described messages: any name, any body. */
export interface AnyMessages {
  // biome-ignore lint/suspicious/noExplicitAny: that is what it says
  toServer: Record<string, any>;
  // biome-ignore lint/suspicious/noExplicitAny: that is what it says
  toClient: Record<string, any>;
  // biome-ignore lint/suspicious/noExplicitAny: that is what it says
  answers: Record<string, any>;
  // biome-ignore lint/suspicious/noExplicitAny: that is what it says
  state: any;
  // biome-ignore lint/suspicious/noExplicitAny: that is what it says
  player: any;
  // biome-ignore lint/suspicious/noExplicitAny: that is what it says
  mine: any;
}

/** What may be read and not changed, with everything in it. */
export type DeepReadonly<T> = 0 extends 1 & T
  ? T
  : T extends object
    ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
    : T;

/** A room's state; unknown if it is not described. */
export type StateOf<M> = M extends { state: infer State } ? DeepReadonly<State> : unknown;

/** What is shared of each player; unknown if it is not described. */
export type PlayerOf<M> = M extends { player: infer Player } ? DeepReadonly<Player> : unknown;

/** A player's own data. */
export type MineOf<M> = M extends { mine: infer Mine } ? DeepReadonly<Mine> : PlayerOf<M>;

/** What a player joins a room with, as far as it is described. */
export type OptionsOf<M> = M extends { options: infer O extends object } ? O : Record<string, unknown>;

/** The names of the messages of one direction. */
export type NameOf<Bodies> = Extract<keyof Bodies, string>;

/** The body of a message; one without fields need not be given. */
export type BodyOf<Body> = Record<never, never> extends Body ? [body?: Body] : [body: Body];

/** The body of the answer to a message; unknown if it is not described. */
export type AnswerOf<M, T> = M extends { answers: infer Answers }
  ? T extends keyof Answers
    ? Answers[T]
    : unknown
  : unknown;

/** What Holdfast itself tells in a room: names that no game's message has. */
export interface RoomEvents {
  /** The seat is gone, and everything that came before has been handed out. */
  "holdfast.left": SeatLeft;
  /** Messages could not be kept: forget what you knew of the room; what follows is its current state. */
  "holdfast.resynced": Record<never, never>;
  /** A message of ours was not carried out. */
  "holdfast.refused": MessageRefused;
  /** The room's entry was changed; `room.info` is it. */
  "holdfast.updated": object;
  /** Another player is the host. */
  "holdfast.host": { readonly player: string };
}

/** A message to the session itself, as opposed to its seat. */
export interface SessionMessage {
  /**
   * Its wire name. Holdfast's own are "holdfast.announcement", whose body is an `Announcement`, and
   * "holdfast.resynced": some messages could not be kept.
   */
  readonly type: string;
  // biome-ignore lint/suspicious/noExplicitAny: the game knows what it sends
  readonly body: any;
}

/** A text for the players, from an operator or the game. */
export interface Announcement {
  readonly text: string;
}

/** What a session signs in with. The credential is a secret. */
export interface Auth {
  /** Which authenticator of the server is to prove it; "guest" if you say nothing. */
  scheme?: string;
  credential?: string;
}

/** What became of the session at a welcome. A gap is never silent. */
export interface Outcome {
  /**
   * - `new`: signed in.
   * - `resumed`: nothing was lost; `replayed` messages follow.
   * - `resynced`: messages could not be kept; the room sends its current state. `reason` is `rolled_back` if this client
   *   knows more than the server, whose state is older.
   * - `reset`: the session was gone, this is a new one; `reason` says why.
   */
  readonly kind: "new" | "resumed" | "resynced" | "reset" | (string & {});
  readonly replayed: number;
  readonly reason: string;
  /** Of `rolled_back`: how old the state was with which the room came back, in seconds; null if that is not known. */
  readonly ageS: number | null;
  /** Why the server ended the connection before this one, if it did. */
  readonly dropReason: string;
}

/** Why there is no connection, and when the next attempt to get one begins. */
export interface Drop {
  readonly reason: Reason;
  readonly message: string;
  /** The number of the next attempt, from 1. It counts on after a connection that lasted less than 2 s. */
  readonly attempt: number;
  /** The attempt begins in so many seconds, or as soon as the network is back. */
  readonly waitS: number;
}

/** For how long to wait. */
export interface Patience {
  /** Reject with `TimedOut` after so many seconds. */
  timeoutS?: number;
  /** Reject with its reason when it is aborted. */
  signal?: AbortSignal;
}

export type Visibility = "public" | "private";
export type JoinPolicy = "accept_all" | "deny_all";

/** A room as the directory shows it. Times are seconds since 1970. */
export interface RoomInfo {
  readonly id: string;
  readonly kind: string;
  /** Seats that are reserved, taken or held. */
  readonly players: number;
  readonly maxPlayers: number;
  readonly phase: string;
  readonly properties: Readonly<Record<string, unknown>>;
  readonly name: string;
  /** creating, active, ending, ended or failed. */
  readonly status: string;
  /** Why it ended or failed. */
  readonly reason: string;
  /** How many newcomers could join now; 0 while it is closed to newcomers. */
  readonly openSeats: number;
  readonly visibility: Visibility;
  readonly joinPolicy: JoinPolicy;
  readonly isLocked: boolean;
  readonly hasPassword: boolean;
  /** What it can be joined by; told to its members and to who made it. */
  readonly code: string;
  readonly creator: string;
  /** The player who is the host, if the room has one. */
  readonly host: string;
  readonly createdAt: number;
  /** Grows with every change of the entry: what `ifVersion` compares. */
  readonly version: number;
  /** Those who watch without a seat; they count in nothing else. */
  readonly spectators: number;
  /** How many may watch; 0: nobody. */
  readonly maxSpectators: number;
  /** What the host is called, if they have a name. */
  readonly hostName: string;
}

/** One page of a search; the cursor gets the next one, and is empty after the last. */
export interface RoomPage {
  readonly rooms: readonly RoomInfo[];
  readonly cursor: string;
  /** Why nothing was found, if the search compares a property with a type that it has in no room; else empty. */
  readonly hint: string;
}

/** Seats that are kept for players who have not come yet. */
export interface ReservationInfo {
  readonly room: string;
  readonly players: readonly string[];
  readonly expiresInS: number;
}

/** A place in a room's line: 1 is next; 0 means that a seat is reserved. */
export interface WaitInfo {
  readonly room: string;
  readonly position: number;
  readonly expiresInS: number;
}

/** A placement: pending until it is fulfilled, cancelled, timed_out or failed. */
export interface PlacementInfo {
  readonly id: string;
  readonly queue: string;
  readonly status: "pending" | "fulfilled" | "cancelled" | "timed_out" | "failed" | (string & {});
  readonly players: readonly string[];
  readonly reason: string;
  readonly node: string;
  readonly room: RoomInfo | null;
  readonly startedAt: number;
  readonly endedAt: number;
}

/** Why a seat is gone. */
/** A message that the server has not acknowledged yet. */
export interface Unconfirmed {
  number: number;
  type: string;
  body: unknown;
}

export interface SeatLeft {
  readonly reason: string;
  readonly message: string;
}

/** A message of ours that the room did not carry out. */
export interface MessageRefused {
  /** Its number in our stream. */
  readonly seq: number;
  readonly type: string;
  readonly code: string;
  readonly message: string;
}

/** What a new room is made with. */
export interface NewRoom {
  /** What searches can look for; everybody can see them. */
  properties?: Record<string, unknown>;
  /** What the room is told in `on_create`; nobody else sees it. */
  config?: Record<string, unknown>;
  maxPlayers?: number;
  name?: string;
  visibility?: Visibility;
  password?: string;
  /** Which messages this client was made for, as `holdfast types` wrote it: refused with `other_version` if not these. */
  messageVersion?: string;
}

export interface CreateOptions extends NewRoom {
  /** The same key with the same request gives the same room. */
  idempotencyKey?: string;
}

export interface JoinOrCreateOptions<M = unknown> extends NewRoom {
  /** Which rooms will do. */
  where?: string;
  /** What the room's `join_options` asks for. */
  options?: OptionsOf<M>;
  /** Whether what the room shares is never changed in place; as it was said to `connect` if you say nothing. */
  immutable?: boolean;
}

export interface JoinOptions<M = unknown> {
  password?: string;
  /** As for a new room. */
  messageVersion?: string;
  /** What the room's `join_options` asks for. */
  options?: OptionsOf<M>;
  /** Whether what the room shares is never changed in place; as it was said to `connect` if you say nothing. */
  immutable?: boolean;
}

export interface SearchOptions {
  /** Which rooms; "open_seats > 0" if you say nothing. */
  where?: string;
  /** Such as `["players desc", "properties.level"]`; oldest first if you say nothing. */
  orderBy?: string | string[];
  /** How many at most, up to 100; 20 if you say nothing. */
  limit?: number;
  /** The last page's, to go on from there. */
  cursor?: string;
}

export interface WatchOptions {
  where?: string;
  limit?: number;
}

/** What has changed: rooms that are new or other than they were, and the ids of those gone. */
export interface RoomsChanged {
  readonly changed: readonly RoomInfo[];
  readonly removed: readonly string[];
}

/** What can be changed of a room's entry; what is not named stays as it is. */
export interface Changes {
  name?: string;
  /** Properties to set. */
  set?: Record<string, unknown>;
  /** Properties to remove, by name. */
  remove?: string[];
  maxPlayers?: number;
  joinPolicy?: JoinPolicy;
  locked?: boolean;
  visibility?: Visibility;
  /** An empty one takes the password away. */
  password?: string;
  /** The player who is the host from now on. */
  host?: string;
  /** Change nothing unless this is still the entry's version: else refused with `conflict`. */
  ifVersion?: number;
}

export interface ReserveOptions {
  password?: string;
  /** For whom; for yourself if you say nothing. */
  players?: string[];
  ttlS?: number;
  /** What each of them joins with, unless they say otherwise. */
  options?: object;
}

export interface WaitOptions<M = unknown> {
  password?: string;
  /** As for a join. */
  options?: OptionsOf<M>;
  /** Leave the line after so many seconds, and reject with `TimedOut`. */
  timeoutS?: number;
  /** Told where we stand, 1 being next. */
  onPosition?: (position: number) => void;
  /** Leave the line when it is aborted, and reject with its reason. */
  signal?: AbortSignal;
  /** Whether what the room shares is never changed in place; as it was said to `connect` if you say nothing. */
  immutable?: boolean;
}

export interface PlacedPlayer {
  id: string;
  /** How far they are from each region, by its name. */
  latenciesMs?: Record<string, number>;
  /** What they join with, unless they say otherwise. */
  options?: object;
}

export interface PlaceOptions {
  players?: (string | PlacedPlayer)[];
  /** The same id with the same request is the same placement. */
  id?: string;
  name?: string;
  properties?: Record<string, unknown>;
  /** As for a new room. */
  config?: Record<string, unknown>;
  maxPlayers?: number;
  visibility?: Visibility;
}
