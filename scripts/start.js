#!/usr/bin/env node
// `npm start`: installs and builds what is missing, then trains the digits on four rank processes of this machine.
// Its arguments go to scripts/train/digits.js: `npm start -- --json result.json`, `npm start -- --help`.
const path = require('node:path');
const { bootstrap } = require('./bootstrap');

const RANKS = 4;

async function main() {
  bootstrap();
  const { launch } = require('../dist/launcher/launch');
  const { progressLines } = require('./train/progress-lines');
  const { parseOptions } = require('./train/digits-options');
  parseOptions(process.argv.slice(2)); // so that help, or an error, is shown once and not by every rank
  const script = path.join(__dirname, 'train/digits.js');
  const stdout = progressLines(process.stdout);
  const { exitCode } = await launch({ ranks: RANKS, script, args: process.argv.slice(2), prefix: false, stdout });
  process.exitCode = exitCode;
}

main().catch(error => {
  console.error(`${error.code ?? ''} ${error.message}`.trim());
  process.exitCode = 1;
});
