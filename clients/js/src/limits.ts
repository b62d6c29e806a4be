/** What this client keeps to; the server's terms replace most of it at the first welcome. */

export interface Limits {
  payloadBytesMax: number;
  /** Frames that travel together in one payload; a larger frame goes alone. Small ones get through bad links. */
  batchBytesMax: number;
  windowMessagesMax: number;
  windowBytesMax: number;
  keptMessagesMax: number;
  keptBytesMax: number;
  requestsInFlightMax: number;
  /** Seconds without a sign of life after which a link counts as dead; before the welcome, too. */
  silenceS: number;
  /** A lone acknowledgement after so many messages, or so many seconds. */
  ackMessages: number;
  clientAckS: number;
  /** Channels without a seat that still owe their last messages. */
  closingChannelsMax: number;
  /** How long `ask` waits, unless the call says otherwise, and how many asks of a seat may have no answer. */
  askS: number;
  asksMax: number;
  /** Unreliable messages that wait, either way; the oldest gives way. */
  latestKeptMax: number;
}

export const LIMITS: Limits = {
  payloadBytesMax: 65536,
  batchBytesMax: 4096,
  windowMessagesMax: 1024,
  windowBytesMax: 262144,
  keptMessagesMax: 4096,
  keptBytesMax: 1048576,
  requestsInFlightMax: 16,
  silenceS: 16,
  ackMessages: 64,
  clientAckS: 1,
  closingChannelsMax: 4,
  askS: 30,
  asksMax: 1024,
  latestKeptMax: 256,
};
