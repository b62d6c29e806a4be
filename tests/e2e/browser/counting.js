// A page that counts with the room, both ways, and goes on counting after whatever happens to it.
import { connect } from "/holdfast.js";

const wish = new URL(location.href).searchParams;
const total = Number(wish.get("total"));

// What a page must keep itself: the SDK keeps the session, not the game.
const count = JSON.parse(sessionStorage.getItem("count") ?? '{"sent": 0, "heard": 0, "lost": 0, "duplicated": 0}');
const keep = () => sessionStorage.setItem("count", JSON.stringify(count));

const told = { outcome: "", replayed: 0, drops: 0, closed: "" };
Object.assign(window, { count, told, report: null, session: null });

const session = await connect(wish.get("server"), { afterRefresh: "replay", tabs: wish.get("tabs") ?? "new" });
window.session = session;
told.outcome = session.outcome.kind;
session.on("drop", () => told.drops++);
session.on("resume", (outcome) => {
  told.outcome = outcome.kind;
  told.replayed += outcome.replayed;
});
session.on("close", (error) => {
  told.closed = error.reason ?? error.message;
});

const seat = session.room;
const room = seat ?? (await session.joinOrCreate("counting"));
room.on("down", ({ number }) => {
  if (number <= count.heard) count.duplicated++;
  else {
    count.lost += number - count.heard - 1;
    count.heard = number;
  }
  keep();
});
room.on("report", (report) => {
  window.report = report;
});
if (seat === null) room.send("begin", { numbers: total, per_pulse: 1 });

const counting = setInterval(() => {
  if (count.sent < total) {
    count.sent++;
    keep();
    room.send("up", { number: count.sent });
  } else if (count.heard === total) {
    clearInterval(counting);
    room.send("ask", {});
  }
}, 40);
