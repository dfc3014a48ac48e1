// Requests to rdmad, as Connect has them: JSON with the names that rdmactl prints.

// ApiError is an answer of rdmad that is an error.
export class ApiError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

// NotReached is a request that rdmad did not answer.
export class NotReached extends Error {}

const timeout = 15000; // ms

async function send(path, options) {
  try {
    return await fetch(path, { ...options, cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(timeout) });
  } catch {
    throw new NotReached("rdmad does not answer");
  }
}

// call makes a request of one method, such as call("StatusService/GetStatus").
export async function call(method, request = {}) {
  const answer = await send("/rdmad.v1." + method, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Connect-Protocol-Version": "1" },
    body: JSON.stringify(request),
  });
  let body;
  try {
    body = await answer.json();
  } catch {
    if (answer.ok) throw new NotReached("rdmad's answer was cut off");
    throw new ApiError("unknown", `rdmad answered ${answer.status}`);
  }
  if (!answer.ok) throw new ApiError(body.code, body.message || body.code);
  return body;
}

// pages gets at most so many pages of a list, the answer with the first of them, and
// whether there are more.
export async function pages(method, field, request, most = Infinity) {
  const first = await call(method, { ...request, page_token: "" });
  const items = [...first[field]];
  let token = first.next_page_token;
  for (let i = 1; i < most && token; i++) {
    const page = await call(method, { ...request, page_token: token });
    items.push(...page[field]);
    token = page.next_page_token;
  }
  return { first, items, more: token !== "" };
}

// all gets a list that comes in pages.
export const all = async (method, field, request = {}) => (await pages(method, field, request)).items;

const mostMessage = 64 << 20; // bytes of one message of a stream

// watch opens a stream, and gives each of its messages to message. began is called
// when rdmad has begun it: from then on nothing is missed. It returns when rdmad ends
// the stream, and throws when something else does. After silence ms without a message
// the stream counts as lost.
export async function watch(method, request, { signal, silence, began, message }) {
  const own = new AbortController();
  const end = () => own.abort();
  signal.addEventListener("abort", end);
  let timer = setTimeout(end, timeout);
  const heard = () => {
    clearTimeout(timer);
    if (silence) timer = setTimeout(end, silence);
  };
  try {
    const answer = await fetch("/rdmad.v1." + method, {
      method: "POST", cache: "no-store", credentials: "same-origin", signal: own.signal,
      headers: { "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1" },
      body: envelope(JSON.stringify(request)),
    });
    if (!answer.ok) throw new ApiError("unknown", `rdmad answered ${answer.status}`);
    heard();
    if (answer.headers.has("Rdmad-Stream")) began?.(); // an error has the status 200 too
    const last = 2; // flag of the envelope that ends the stream
    for await (const { flags, text } of envelopes(answer.body)) {
      heard();
      const body = JSON.parse(text);
      if (!(flags & last)) message(body);
      else if (body.error) throw new ApiError(body.error.code, body.error.message || body.error.code);
      else return;
    }
    throw new NotReached("rdmad does not answer");
  } catch (problem) {
    if (problem instanceof ApiError || problem instanceof NotReached) throw problem;
    if (problem instanceof TypeError || problem.name === "AbortError") throw new NotReached("rdmad does not answer");
    throw problem;
  } finally {
    clearTimeout(timer);
    end(); // also after an error of message
    signal.removeEventListener("abort", end);
  }
}

// envelope is a message of a stream: flags, length, text.
function envelope(text) {
  const body = new TextEncoder().encode(text);
  const out = new Uint8Array(5 + body.length);
  new DataView(out.buffer).setUint32(1, body.length);
  out.set(body, 5);
  return out;
}

// envelopes yields the messages of a stream.
async function* envelopes(stream) {
  const reader = stream.getReader(), decoder = new TextDecoder();
  let buffer = new Uint8Array(1 << 16), from = 0, to = 0; // what is not yet read of it
  for (;;) {
    while (to - from >= 5) {
      const length = new DataView(buffer.buffer).getUint32(from + 1);
      if (length > mostMessage) throw new ApiError("out_of_range", `a message of rdmad has ${length} bytes`);
      if (to - from < 5 + length) break;
      yield { flags: buffer[from], text: decoder.decode(buffer.subarray(from + 5, from + 5 + length)) };
      from += 5 + length;
    }
    const { done, value } = await reader.read();
    if (done) return;
    if (to + value.length > buffer.length) {
      const need = to - from + value.length;
      const room = 2 * need > buffer.length ? new Uint8Array(2 * need) : buffer;
      room.set(buffer.subarray(from, to));
      [buffer, from, to] = [room, 0, to - from];
    }
    buffer.set(value, to);
    to += value.length;
  }
}

// login begins a session with a one-time token, or without one with the browser's
// client certificate.
export async function login(token) {
  const answer = await send("/session", { method: "POST", headers: token ? { Authorization: "Bearer " + token } : {} });
  if (!answer.ok) throw new ApiError("unauthenticated", await answer.text());
}

export async function logout() {
  await send("/session", { method: "DELETE" });
}
