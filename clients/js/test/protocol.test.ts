/** The pure half of the client, without a connection. */

import { expect, test } from "vitest";
import { JSON_TEXT } from "../src/codec.js";
import { LIMITS } from "../src/limits.js";
import { ClientProtocol } from "../src/protocol.js";
import { seatAt, welcome } from "./fake_server.js";

const AUTH = { scheme: "guest", credential: "" };

/** The server says this to a client that has just said hello. */
function welcomed(client: ClientProtocol, ...told: Parameters<typeof welcome>): ClientProtocol {
  const payload = new TextEncoder().encode(JSON.stringify([welcome(...told)]));
  expect([...client.receive(payload)]).not.toEqual([]);
  return client;
}

test("a session that was lost before the save leaves no requests to the next one", () => {
  const client = welcomed(new ClientProtocol(JSON_TEXT, AUTH, LIMITS), "s1", "t1", "resumed", [seatAt(0)], 5);
  client.signInAgain("token_reused");

  const other = new ClientProtocol(JSON_TEXT, AUTH, LIMITS);
  other.load(client.save(), true);
  welcomed(other, "s2", "t2");
  other.lost();

  const [[, , resume]] = JSON.parse(new TextDecoder().decode(other.hello()));
  expect([resume.session, resume.requests]).toEqual(["s2", 0]);
});
