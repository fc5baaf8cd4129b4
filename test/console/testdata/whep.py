"""A WHEP client that shares no code with ours: aiortc, as Debian packages it.

whep.py URL KIND FOLDER reads a token from its standard input, receives until that
ends, and then takes its session back. It says a line of JSON for each step and leaves
the latest picture (frame.ppm) or all sound (sound.s16) in the folder.
"""

import asyncio
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription


def say(**what):
    print(json.dumps(what), flush=True)


def ask(method, url, token, body=None):
    request = urllib.request.Request(url, data=body and body.encode(), method=method)
    request.add_header("Authorization", "Bearer " + token)
    if body:
        request.add_header("Content-Type", "application/sdp")
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, refused.read().decode()


async def pictures(track, folder):
    n = 0
    while True:
        frame = await track.recv()
        n += 1
        pixels = frame.to_ndarray(format="rgb24")
        with open(os.path.join(folder, "next"), "wb") as file:
            file.write(b"P6 %d %d 255\n" % (frame.width, frame.height))
            file.write(pixels.tobytes())
        os.replace(os.path.join(folder, "next"), os.path.join(folder, "frame.ppm"))
        say(frames=n, width=frame.width, height=frame.height)


async def sounds(track, folder):
    n = 0
    with open(os.path.join(folder, "sound.s16"), "wb") as file:
        while True:
            frame = await track.recv()
            n += 1
            samples = frame.to_ndarray().reshape(-1, len(frame.layout.channels))[:, 0]
            file.write(samples.tobytes())
            file.flush()
            say(frames=n, rate=frame.sample_rate, format=frame.format.name)


async def main(url, kind, folder):
    loop = asyncio.get_running_loop()
    token = (await loop.run_in_executor(None, sys.stdin.readline)).strip()
    ended = loop.run_in_executor(None, sys.stdin.read)
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    tracks = asyncio.Queue()
    pc.add_listener("track", tracks.put_nowait)
    pc.add_listener("connectionstatechange", lambda: say(state=pc.connectionState))
    pc.addTransceiver(kind, direction="recvonly")
    await pc.setLocalDescription(await pc.createOffer())
    status, head, answer = await loop.run_in_executor(None, ask, "POST", url, token, pc.localDescription.sdp)
    say(post=status, kind=head.get("Content-Type"), tag=head.get("ETag"), body=answer)
    if status != 201:
        return
    await pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    reading = asyncio.ensure_future((pictures if kind == "video" else sounds)(await tracks.get(), folder))
    await ended
    session = urllib.parse.urljoin(url, head["Location"])
    status, _, _ = await loop.run_in_executor(None, ask, "DELETE", session, token)
    say(delete=status)
    reading.cancel()
    await pc.close()


asyncio.run(main(*sys.argv[1:]))
