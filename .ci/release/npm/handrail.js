#!/usr/bin/env node
// Starts the program of the package for this system, with what it was given, and ends as it ends.
'use strict';
const { spawn } = require('node:child_process');

const kind = `${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`@handrail/${kind}/bin/handrail${process.platform === 'win32' ? '.exe' : ''}`);
} catch {
  console.error(`handrail: there is no program for ${kind} beside this package.`);
  console.error('  Linux, macOS and Windows on x64 and arm64 have one. It is an optional dependency: install again without --omit=optional.');
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
// A terminal sends its keys' signals to the program as well; others come to this process alone.
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
process.on('SIGINT', () => { if (!process.stdin.isTTY) child.kill('SIGINT'); });
child.on('error', (err) => {
  console.error(`handrail: ${program} does not start: ${err.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => {
  if (!signal) process.exit(code);
  for (const name of ['SIGTERM', 'SIGHUP', 'SIGINT']) process.removeAllListeners(name);
  process.kill(process.pid, signal);
});
