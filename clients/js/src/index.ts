export { type ConnectOptions, connect } from "./connect.js";
export type { Off } from "./emitter.js";
export {
  HoldfastError,
  ProtocolError,
  type RefusalCode,
  Refused,
  Reset,
  SessionEnded,
  TimedOut,
  Unreachable,
} from "./errors.js";
export { type Advice, advice, CLOSE_CODES, type CloseReason, type Reason } from "./reasons.js";
export type { ClientRoom } from "./room.js";
export type { ClientSession, RoomRef, SessionEvents, SessionListeners } from "./session.js";
export type { SessionStorage } from "./storage.js";
export type { Placement, RoomWatch } from "./subscriptions.js";
export type * from "./types.js";
export { VERSION } from "./version.js";
