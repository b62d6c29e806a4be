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

function drawMember(member, me, send) {
  const line = element("li", "", member.is_here ? "" : "away");
  const label = `${member.is_host ? "★ " : ""}${member.name}${member.id === me.id ? " (you)" : ""}`;
  line.append(element("span", label, "name"), element("span", member.is_ready ? "ready" : "…"));
  if (me.is_host && member.id !== me.id) {
    const remove = element("button", "Remove");
    remove.onclick = () => send("remove", { player: member.id });
    line.append(remove);
  }
  return line;
}

function drawTeam(team, members, me, send) {
  const box = element("div", "", "team");
  box.style.setProperty("--color", TEAMS[team]);
  const list = element("ul", "");
  list.append(...members.filter((each) => each.team === team).map((each) => drawMember(each, me, send)));
  box.append(element("h2", team), list);
  if (me.team !== team) {
    const join = element("button", `Play for ${team}`);
    join.onclick = () => send("pick_team", { team });
    box.append(join);
  }
  return box;
}

function say({ name, text, team }) {
  const line = element("li", `${name}${team ? ` (${team})` : ""}: ${text}`);
  if (team) line.style.color = TEAMS[team];
  $("#chat").append(line);
  line.scrollIntoView({ block: "nearest" });
}

async function play(name) {
  const { url } = await (await fetch("/holdfast.json")).json();
  const session = await connect(url, { name });
  session.on("drop", () => show("Connection lost; reconnecting …"));
  session.on("resume", (outcome) => show(`Back (${outcome.kind}).`));
  session.on("close", (error) => show(`Session ended: ${error.message}`));

  // After a page refresh the session still has its seat.
  const code = new URLSearchParams(location.search).get("code");
  const room = session.room ?? (code ? await session.join({ code }) : await session.joinOrCreate("party"));
  const send = (type, body = {}) => room.send(type, body);
  let me = { id: session.playerId };

  room.on("party", ({ members, phase, starts_in_s }) => {
    me = members.find((each) => each.id === session.playerId) ?? me;
    $("#teams").replaceChildren(...Object.keys(TEAMS).map((team) => drawTeam(team, members, me, send)));
    $("#ready").textContent = me.is_ready ? "I am not ready" : "I am ready";
    $("#ready").disabled = phase === "playing";
    for (const button of document.querySelectorAll(".host")) button.hidden = !me.is_host;
    $("#begin").hidden ||= phase === "playing";
    $("#finish").hidden ||= phase === "lobby";
    $("#begin").disabled = members.some((each) => !each.is_ready || !each.is_here);
    const starting = starts_in_s === null ? "" : ` The game starts in ${Math.ceil(starts_in_s)} s.`;
    show(phase === "playing" ? "The game is on!" : `In the lobby.${starting}`);
  });
  room.on("history", ({ lines }) => {
    $("#chat").replaceChildren();
    lines.forEach(say);
  });
  room.on("said", say);
  room.on("holdfast.refused", ({ message }) => show(message));
  room.on("holdfast.left", ({ reason, message }) => show(`You left the party: ${message || reason}`));

  $("#ready").onclick = () => send("ready", { is_ready: !me.is_ready });
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
  play(name).catch((error) => show(`Error: ${error.message}`));
}

const known = sessionStorage.getItem("party.name");
if (known) {
  begin(known);
} else {
  show("Who are you?");
  $("#enter").hidden = false;
  $("#enter").onsubmit = (event) => {
    event.preventDefault();
    const name = event.target.elements.name.value;
    sessionStorage.setItem("party.name", name);
    begin(name);
  };
}
