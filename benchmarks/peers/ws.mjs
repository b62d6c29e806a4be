/** The benchmarks' game on bare `ws`: the same bytes to as many connections, and nothing else. */

import { WebSocketServer } from "ws";
import { game, serve } from "./lines.mjs";

// As many bytes as a broadcast has on Holdfast's wire.
const SAMPLE = Buffer.alloc(60, "x");
const rooms = [];
const server = new WebSocketServer({ port: 0, host: "127.0.0.1" }, () => serve(server.address().port));

function tick(room) {
  for (let i = 0; i < game.broadcasts; i++) for (const socket of room) socket.send(SAMPLE);
}

server.on("connection", (socket) => {
  if (!rooms.length || rooms.at(-1).length === game.seats) {
    rooms.push([]);
    if (game.hz) setInterval(tick, 1000 / game.hz, rooms.at(-1));
  }
  rooms.at(-1).push(socket);
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
});
