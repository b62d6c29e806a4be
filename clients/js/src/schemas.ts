/** What the server's directory answers, as it is shown here: keys in camelCase, every default filled in. */

import { ProtocolError } from "./errors.js";
import type { PlacementInfo, ReservationInfo, RoomInfo, RoomPage, RoomsChanged, WaitInfo } from "./types.js";

type Plain = Record<string, unknown>;

const camel = (key: string) => key.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
const snake = (key: string) => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Options as the wire names them; those that are undefined stay so, and are not said. */
export function argumentsOf(options: object): Plain {
  return Object.fromEntries(Object.entries(options).map(([key, option]) => [snake(key), option]));
}

/** Throw unless this holds. */
function check(holds: boolean, what: string): void {
  if (!holds) throw new ProtocolError(`the ${what} is invalid`);
}

function plain(content: unknown, what: string): Plain {
  check(typeof content === "object" && content !== null && !Array.isArray(content), what);
  return Object.fromEntries(Object.entries(content as Plain).map(([key, part]) => [camel(key), part]));
}

function list<T>(content: unknown, what: string, read: (part: unknown) => T): T[] {
  check(Array.isArray(content), what);
  return (content as unknown[]).map(read);
}

export function roomInfo(content: unknown): RoomInfo {
  const given = plain(content, "entry of a room");
  check(typeof given.id === "string" && typeof given.kind === "string", "entry of a room");
  return {
    name: "",
    status: "active",
    reason: "",
    openSeats: 0,
    visibility: "public",
    joinPolicy: "accept_all",
    isLocked: false,
    hasPassword: false,
    code: "",
    creator: "",
    host: "",
    createdAt: 0,
    version: 0,
    spectators: 0,
    maxSpectators: 0,
    hostName: "",
    ...(given as unknown as Pick<RoomInfo, "id" | "kind" | "players" | "maxPlayers" | "phase" | "properties">),
  };
}

export const roomInfos = (content: unknown): RoomInfo[] => list(content, "list of rooms", roomInfo);

export function roomPage(content: unknown): RoomPage {
  const { rooms, cursor = "", hint = "" } = plain(content, "page of rooms");
  return { rooms: roomInfos(rooms), cursor: String(cursor), hint: String(hint) };
}

export function roomsChanged(content: unknown): RoomsChanged {
  const { changed = [], removed = [] } = plain(content, "notice of rooms");
  return { changed: roomInfos(changed), removed: list(removed, "notice of rooms", String) };
}

export function reservationInfo(content: unknown): ReservationInfo {
  return plain(content, "reservation") as unknown as ReservationInfo;
}

export function waitInfo(content: unknown): WaitInfo {
  const given = plain(content, "place in a line");
  check(Number.isSafeInteger(given.position), "place in a line");
  return { expiresInS: 0, ...(given as unknown as Pick<WaitInfo, "room" | "position">) };
}

export function placementInfo(content: unknown): PlacementInfo {
  const given = plain(content, "state of a placement");
  check(typeof given.id === "string" && typeof given.status === "string", "state of a placement");
  return {
    reason: "",
    node: "",
    startedAt: 0,
    endedAt: 0,
    ...(given as unknown as Pick<PlacementInfo, "id" | "queue" | "status" | "players">),
    room: given.room ? roomInfo(given.room) : null,
  };
}
