// The party's page. `holdfast serve --web` provides the client at /holdfast.js and the game's address at /holdfast.json.
import { connect } from "/holdfast.js";

const TEAMS = { red: "#ff6b5e", blue: "#5ea8ff" };
const $ = (selector) => document.querySelector(selector);
const show = (text) => {
  $("#status").textContent = text;
};

function element(tag, text, className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
}

function drawMember([id, member], { me, host, send }) {
  const line = element("li", "", member.is_here ? "" : "away");
  const label = `${id === host ? "★ " : ""}${member.name}${id === me ? " (you)" : ""}`;
  line.append(element("span", label, "name"), element("span", member.is_ready ? "ready" : "…"));
  if (me === host && id !== me) {
    const remove = element("button", "Remove");
    remove.onclick = () => send("remove", { player: id });
    line.append(remove);
  }
  return line;
}

function drawTeam(team, members, context) {
  const box = element("div", "", "team");
  box.style.setProperty("--color", TEAMS[team]);
  const list = element("ul", "");
  const own = members.filter(([, member]) => member.team === team);
  list.append(...own.map((each) => drawMember(each, context)));
  box.append(element("h2", team), list);
  if (!own.some(([id]) => id === context.me)) {
    const join = element("button", `Play for ${team}`);
    join.onclick = () => context.send("pick_team", { team });
    box.append(join);
  }
  return box;
}

function drawLine({ name, text, team }) {
  const line = element("li", `${name}${team ? ` (${team})` : ""}: ${text}`);
  if (team) line.style.color = TEAMS[team];
  return line;
}

async function play(name) {
  const { url } = await (await fetch("/holdfast.json")).json();
  const session = await connect(url, { name });
  sessionStorage.setItem("party.name", name);
  session.on("drop", () => show("Connection lost; reconnecting …"));
  session.on("resume", (outcome) => show(`Back (${outcome.kind}).`));
  session.on("close", (error) => show(`Session ended: ${error.message}`));

  // After a page refresh the session still has its seat.
  const code = new URLSearchParams(location.search).get("code");
  const room = session.room ?? (code ? await session.join({ code }) : await session.joinOrCreate("party"));
  const send = (type, body = {}) => room.send(type, body);
  const me = session.playerId;

  const draw = () => {
    const { state, players, mine } = room;
    if (!state || !mine) return; // it has not come yet
    const { host, is_playing, starts_in_s } = state;
    const members = Object.entries(players);
    $("#teams").replaceChildren(...Object.keys(TEAMS).map((team) => drawTeam(team, members, { me, host, send })));
    $("#ready").textContent = mine.is_ready ? "I am not ready" : "I am ready";
    $("#ready").disabled = is_playing;
    for (const button of document.querySelectorAll(".host")) button.hidden = me !== host;
    $("#begin").hidden ||= is_playing;
    $("#finish").hidden ||= !is_playing;
    $("#begin").disabled = members.some(([, member]) => !member.is_ready || !member.is_here);
    show(is_playing ? "The game is on!" : `In the lobby.${starts_in_s ? ` The game starts in ${starts_in_s} s.` : ""}`);
  };
  const drawChat = () => {
    $("#chat").replaceChildren(...(room.mine?.chat ?? []).map(drawLine));
    $("#chat").lastElementChild?.scrollIntoView({ block: "nearest" });
  };
  room.onChange(draw);
  room.onChange("mine.chat", drawChat);
  draw();
  drawChat();
  room.on("holdfast.refused", ({ message }) => show(message));
  room.on("holdfast.left", ({ reason, message }) => show(`You left the party: ${message || reason}`));

  $("#ready").onclick = () => send("ready", { is_ready: !room.mine?.is_ready });
  $("#begin").onclick = () => send("begin");
  $("#finish").onclick = () => send("finish");
  $("#bot").onclick = () => send("add_bot");
  $("#cut").onclick = () => session.cut();
  $("#say").onsubmit = (event) => {
    event.preventDefault();
    const { text, team } = event.target.elements;
    if (text.value.trim()) send("say", { text: text.value, to_team: team.checked });
    text.value = "";
  };
  $("#code").textContent = room.info?.code ?? "";
  $("#party").hidden = false;
}

function begin(name) {
  $("#enter").hidden = true;
  play(name).catch((error) => {
    show(`Error: ${error.message}`);
    // Another name may be allowed.
    if (error.problem === "name_not_allowed") $("#enter").hidden = false;
  });
}

$("#enter").onsubmit = (event) => {
  event.preventDefault();
  begin(event.target.elements.name.value);
};

const known = sessionStorage.getItem("party.name");
if (known) {
  begin(known);
} else {
  show("Who are you?");
  $("#enter").hidden = false;
}
