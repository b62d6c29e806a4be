/** The benchmarks' game on Socket.IO with connection state recovery: it keeps what a dropped client has missed. */

import { createServer } from "node:http";
import { Server } from "socket.io";
import { game, serve } from "./lines.mjs";

const TEXT = "x".repeat(32);
const http = createServer();
const io = new Server(http, { connectionStateRecovery: { maxDisconnectionDuration: game.grace_s * 1000 } });
let joined = 0;

function tick(room) {
  for (let i = 0; i < game.broadcasts; i++) io.to(room).emit("moved", { text: TEXT });
}

io.on("connection", (socket) => {
  socket.on("say", (message) => socket.emit("say", message));
  socket.on("join", (answer) => {
    const room = `arena-${Math.floor(joined / game.seats)}`;
    if (joined++ % game.seats === 0 && game.hz) setInterval(tick, 1000 / game.hz, room);
    socket.join(room);
    answer(room);
  });
});
http.listen(0, "127.0.0.1", () => serve(http.address().port));
