// Formats numbers and times for people.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function count(value: number): string {
  return whole.format(value);
}

/** A number with a noun: "1 message", "2 messages". */
export function counted(value: number, noun: string): string {
  return `${whole.format(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** A number in short form. */
export function compact(value: number): string {
  return value >= 10_000 ? short.format(value) : value >= 100 || value === 0 ? whole.format(value) : digits(value);
}

function digits(value: number): string {
  return String(Number(value.toPrecision(2)));
}

/** A duration. */
export function took(seconds: number | null): string {
  if (seconds === null || Number.isNaN(seconds)) {
    return "–";
  }
  if (seconds < 0.001) {
    return `${digits(seconds * 1e6)} µs`;
  }
  return seconds < 1 ? `${digits(seconds * 1000)} ms` : `${digits(seconds)} s`;
}

export function milliseconds(ms: number): string {
  return ms > 0 ? `${ms < 10 ? ms.toFixed(1) : whole.format(ms)} ms` : "–";
}

/** A time span: "4 min", "2 h 10 min". */
export function span(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) {
    return `${s} s`;
  }
  if (s < 3600) {
    return `${Math.floor(s / 60)} min${s < 600 && s % 60 ? ` ${s % 60} s` : ""}`;
  }
  if (s < 86_400) {
    return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  }
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** A time of day, in this browser's time zone. */
export function clock(at: number): string {
  return time.format(at * 1000);
}

export function date(at: number): string {
  return at > 0 ? moment.format(at * 1000) : "–";
}

export function bytes(value: number): string {
  return value < 1024
    ? `${value} B`
    : value < 1_048_576
      ? `${digits(value / 1024)} KiB`
      : `${digits(value / 1_048_576)} MiB`;
}

/** An identifier as words: "messages_per_s" is "messages per s". */
export function words(name: string): string {
  return name.replaceAll("_", " ").replaceAll(".", " ");
}
