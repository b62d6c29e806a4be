// The client where there is no page: says one number, and tells what the room has of it.
import { connect } from "/holdfast.js";

const session = await connect(new URL(location.href).searchParams.get("server"));
const room = await session.joinOrCreate("counting");
room.on("report", (report) => postMessage(report));
room.send("up", { number: 1 });
await room.flush();
session.cut();
room.send("ask", {});
