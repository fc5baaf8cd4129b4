// The page of the private browser. It asks the browser's media stack for devices and
// hands what they give to the program that drives it; it keeps nothing.
"use strict";
const running = new Map();   // captures, by number: how to end each
const released = new Set();  // numbers that were released before their device was open

// Errors cross as "name: message": the name tells the conditions apart.
const failure = (name, message) => Object.assign(new Error(message), {name});
const said = (e) => ({error: {name: String(e && e.name || "Error"), message: String(e && e.message || e).slice(0, 300)}});

async function devices() {
  const all = await navigator.mediaDevices.enumerateDevices();
  return all.filter((d) => d.kind === "videoinput" || d.kind === "audioinput")
    .map((d) => ({id: d.deviceId, kind: d.kind, label: d.label}));
}

const exactly = (id) => id ? {deviceId: {exact: id}} : {};
// Sound as the microphone has it: what is made for calls between people bends it.
const sound = (id) => ({...exactly(id), echoCancellation: false, noiseSuppression: false, autoGainControl: false});
const pictures = (id, width, height) => ({...exactly(id), width: {ideal: width}, height: {ideal: height}, frameRate: {ideal: 30}});

async function open(number, constraints) {
  const stream = await navigator.mediaDevices.getUserMedia(constraints);
  if (released.delete(number)) {
    close(stream);
    throw failure("Released", "released while it was opened");
  }
  return stream;
}

const close = (stream) => stream.getTracks().forEach((t) => t.stop());

// light is how bright a picture is, 0 to 255.
const probe = new OffscreenCanvas(16, 16).getContext("2d", {willReadFrequently: true});
function light(frame) {
  probe.drawImage(frame, 0, 0, 16, 16);
  const data = probe.getImageData(0, 0, 16, 16).data;
  let sum = 0;
  for (let i = 0; i < data.length; i += 4) sum += data[i] * 2 + data[i + 1] * 5 + data[i + 2];
  return sum / (data.length * 2);
}

// A camera's first pictures are dark until it has found its exposure: the photo is the
// first whose brightness is like the two before, or the best of a second.
async function settled(track) {
  const reader = new MediaStreamTrackProcessor({track, maxBufferSize: 1}).readable.getReader();
  const end = performance.now() + 1000;
  let calm = 0, last = -1, frame;
  try {
    while (true) {
      const next = await reader.read();
      if (next.done) throw failure("Ended", "the camera returned no picture");
      if (frame) frame.close();
      frame = next.value;
      const now = light(frame);
      calm = last >= 0 && now > 4 && Math.abs(now - last) < 3 ? calm + 1 : 0;
      last = now;
      if (calm >= 2 || performance.now() > end) return frame;
    }
  } catch (e) {
    if (frame) frame.close();
    throw e;
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function base64(blob) {
  const reader = new FileReader();
  await new Promise((done, failed) => {
    reader.onload = done;
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(blob);
  });
  const text = String(reader.result);
  return text.slice(text.lastIndexOf(",") + 1);
}

async function photo({number, device, mime, quality}) {
  const stream = await open(number, {video: pictures(device, 1920, 1080)});
  const lost = watch(number, stream);
  lost.catch(() => {});
  const [track] = stream.getVideoTracks();
  let frame;
  try {
    frame = await either(settled(track), lost);
    const canvas = new OffscreenCanvas(frame.displayWidth, frame.displayHeight);
    canvas.getContext("2d").drawImage(frame, 0, 0, canvas.width, canvas.height);
    const time = Date.now();
    close(stream); // the camera is free before the picture is packed
    const blob = await canvas.convertToBlob({type: mime, quality});
    if (blob.type !== mime) throw failure("NotSupportedError", mime);
    return {data: await base64(blob), width: canvas.width, height: canvas.height, time, label: track.label};
  } finally {
    running.delete(number);
    close(stream);
    if (frame) frame.close();
  }
}

// watch makes a promise that fails when a track ends by itself, or when the recording
// with that number is told to end.
function watch(number, stream) {
  return new Promise((_, failed) => {
    running.set(number, () => { close(stream); failed(failure("Released", "released")); });
    for (const t of stream.getTracks()) t.onended = () => failed(failure("Ended", "the device ended"));
  });
}

const say = (message) => handrailSay(JSON.stringify(message));

// whole waits until work is done, unless lost fails first.
const either = (work, lost) => Promise.race([work, lost]);
const after = (ms) => new Promise((done) => setTimeout(done, Math.max(0, ms)));

// film records a container: a film with or without sound, or sound alone.
async function film({number, video, device, microphone, mime, duration, bits, soundBits}) {
  let stream, silent = "";
  const wanted = video ? {video: pictures(device, 1280, 720)} : {audio: sound(device)};
  if (video && microphone !== undefined) {
    try {
      stream = await open(number, {...wanted, audio: sound(microphone)});
    } catch (e) {
      if (e.name === "Released") throw e;
      silent = e.name; // the camera alone, if it is not the camera that fails
    }
  }
  stream = stream || await open(number, wanted);
  const lost = watch(number, stream);
  lost.catch(() => {});
  let recorder;
  try {
    if (video) { // the time counts from the first picture
      const el = document.createElement("video");
      el.muted = true;
      el.srcObject = new MediaStream(stream.getVideoTracks());
      const first = new Promise((done) => el.requestVideoFrameCallback(done));
      el.play().catch(() => {});
      await either(Promise.race([first, after(10000).then(() => { throw failure("Ended", "the camera returned no picture"); })]), lost);
      el.srcObject = null;
    }
    recorder = new MediaRecorder(stream, {mimeType: mime, videoBitsPerSecond: bits, audioBitsPerSecond: soundBits});
    let sent = 0, last = Promise.resolve();
    const failed = new Promise((_, no) => { recorder.onerror = (e) => no(e.error || failure("Ended", "the recorder failed")); });
    failed.catch(() => {});
    const stopped = new Promise((done) => { recorder.onstop = done; });
    const started = new Promise((done) => { recorder.onstart = done; });
    recorder.ondataavailable = (e) => {
      const blob = e.data;
      if (!blob.size) return;
      sent += blob.size;
      last = last.then(async () => say({number, data: await base64(blob)}));
    };
    recorder.start(250);
    await either(Promise.race([started, failed]), lost);
    const begin = performance.now(), time = Date.now();
    const whole = duration + 100; // the last packets of the encoders are not full
    for (let now = 0; now < whole; now = performance.now() - begin) {
      say({number, done: now});
      await either(Promise.race([after(Math.min(250, whole - now)), failed]), lost);
    }
    recorder.stop();
    await either(Promise.race([stopped, failed]), lost);
    close(stream);
    await last;
    const label = (stream.getVideoTracks()[0] || stream.getAudioTracks()[0]).label;
    return {bytes: sent, time, label, mime: recorder.mimeType, sound: stream.getAudioTracks().length > 0, silent};
  } finally {
    running.delete(number);
    if (recorder) { recorder.ondataavailable = null; if (recorder.state !== "inactive") recorder.stop(); }
    close(stream);
  }
}

// listen records samples: 16 bits, one channel.
async function listen({number, device, duration}) {
  const stream = await open(number, {audio: sound(device)});
  const ended = watch(number, stream);
  ended.catch(() => {});
  const [track] = stream.getAudioTracks();
  const reader = new MediaStreamTrackProcessor({track, maxBufferSize: 400}).readable.getReader();
  try {
    let rate = 0, wanted = 0, have = 0, start = 0, told = 0, time = 0, bytes = 0, lost = 0;
    let part = null, filled = 0, last = Promise.resolve();
    const flush = () => {
      if (!filled) return;
      const blob = new Blob([part.subarray(0, filled)]);
      filled = 0;
      bytes += blob.size;
      last = last.then(async () => say({number, data: await base64(blob)}));
    };
    const add = (sample) => {
      part[filled++] = sample;
      have++;
      if (filled === part.length) flush();
    };
    while (!wanted || have < wanted) {
      const {value: heard, done} = await either(reader.read(), ended);
      if (done) throw failure("Ended", "the microphone ended");
      const n = heard.numberOfFrames, channels = heard.numberOfChannels;
      if (!rate) {
        rate = heard.sampleRate;
        wanted = Math.round(rate * duration / 1000);
        start = heard.timestamp;
        time = Date.now();
        part = new Int16Array(rate >> 2);
      } else if (rate !== heard.sampleRate) {
        heard.close();
        throw failure("Ended", "the microphone changed its rate");
      }
      // What a busy machine dropped shows in the timestamps: silence takes its place, and
      // is told. Less than that is the drift of two clocks.
      const gap = heard.timestamp - start - have * 1e6 / rate;
      if (gap > 40000) {
        lost += gap / 1000;
        for (let i = Math.round(gap * rate / 1e6); i > 0 && have < wanted; i--) add(0);
      }
      const mixed = new Float32Array(n), one = new Float32Array(n);
      for (let c = 0; c < channels; c++) {
        heard.copyTo(one, {planeIndex: c, format: "f32-planar"});
        for (let i = 0; i < n; i++) mixed[i] += one[i] / channels;
      }
      heard.close();
      for (let i = 0; i < n && have < wanted; i++) add(Math.max(-32768, Math.min(32767, Math.round(mixed[i] * 32767))));
      if (have - told >= rate / 4) {
        told = have;
        say({number, done: have * 1000 / rate});
      }
    }
    close(stream);
    flush();
    await last;
    return {bytes, rate, time, label: track.label, lost};
  } finally {
    running.delete(number);
    close(stream);
    reader.cancel().catch(() => {});
  }
}

// live encodes what a device gives until it is released: one frame at a time, the newest.
const tuned = new Map(); // what was asked of each, by number
async function live({number, device, video, bits}) {
  const stream = await open(number, video ? {video: pictures(device, 1280, 720)} : {audio: sound(device)});
  const lost = watch(number, stream);
  lost.catch(() => {});
  const [track] = stream.getTracks();
  const reader = new MediaStreamTrackProcessor({track, maxBufferSize: video ? 1 : 10}).readable.getReader();
  let failed, config = null, encoder;
  const broken = new Promise((_, no) => { failed = no; });
  broken.catch(() => {});
  const init = {
    error: (e) => failed(e),
    output: (chunk) => {
      const data = new Uint8Array(chunk.byteLength);
      chunk.copyTo(data);
      let text = "";
      for (let i = 0; i < data.length; i += 8192) text += String.fromCharCode(...data.subarray(i, i + 8192));
      say({number, data: btoa(text), key: chunk.type === "key"});
    },
  };
  try {
    encoder = video ? new VideoEncoder(init) : new AudioEncoder(init);
    tuned.set(number, {bits, key: true});
    while (true) {
      const {value, done} = await either(Promise.race([reader.read(), broken]), lost);
      if (done) throw failure("Ended", "the device ended");
      const now = tuned.get(number);
      const want = video
        ? {codec: "vp8", width: value.displayWidth, height: value.displayHeight, bitrate: now.bits, framerate: 30, latencyMode: "realtime"}
        : {codec: "opus", sampleRate: value.sampleRate, numberOfChannels: value.numberOfChannels, bitrate: bits};
      if (JSON.stringify(want) !== config) {
        config = JSON.stringify(want);
        encoder.configure(want);
      }
      if (!video) encoder.encode(value);
      else if (encoder.encodeQueueSize === 0) {
        encoder.encode(value, {keyFrame: now.key});
        now.key = false;
      }
      value.close();
    }
  } finally {
    running.delete(number);
    tuned.delete(number);
    close(stream);
    reader.cancel().catch(() => {});
    if (encoder && encoder.state !== "closed") encoder.close();
  }
}

function tune(number, bits, key) {
  const now = tuned.get(number);
  if (!now) return;
  now.bits = bits;
  now.key ||= key;
}

// release frees one capture, or one that is only just being opened.
function release(number) {
  const end = running.get(number);
  if (end) end();
  else released.add(number);
}

const handrail = {devices, photo, film, listen, live, release};
async function handrailDo(name, argument) {
  try {
    return {value: await handrail[name](argument)};
  } catch (e) {
    return said(e);
  }
}
