// The player of diarist.py in JavaScript: it counts up to the last number, and is killed whenever somebody likes.
//
//     node tests/e2e/diarist.mjs ws://127.0.0.1:7777 folder 200

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { WebSocket } from "ws";
import { connect } from "../../clients/js/dist/index.js";

const [url, folder, last] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const file = `${folder}/diary.json`;
const diary = existsSync(file)
  ? JSON.parse(readFileSync(file, "utf8"))
  : { numbers: [], strange: [], handled: 0, report: null };

function message(number) {
  if (number === 1) return ["begin", { numbers: last, per_pulse: 1 }];
  return number <= last + 1 ? ["up", { number: number - 1 }] : ["ask", {}];
}

const session = await connect(url, { WebSocket, saved: `${folder}/ada.session` });
const room = session.room ?? (await session.joinOrCreate("counting"));
console.log("playing");

const done = new Promise((resolve) => {
  room.on("*", (body, type) => {
    if (room.received > diary.handled) {
      diary.handled = room.received;
      if (type === "down") diary.numbers.push(body.number);
      else if (type === "report") diary.report = body;
      else diary.strange.push(type);
      writeFileSync(`${file}.draft`, JSON.stringify(diary));
      renameSync(`${file}.draft`, file);
    }
    if (diary.report && diary.numbers.at(-1) >= last) resolve();
  });
});
while (room.sent < last + 2) {
  await new Promise((resolve) => setTimeout(resolve, 50));
  await room.send(...message(room.sent + 1));
}
await done;
session.close();
