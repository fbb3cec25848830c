#!/usr/bin/env node
// `npm start`: installs and builds what is missing, then trains the digits on one machine, and on two over slow links,
// with and without compression. `npm start -- --help` has the options.
const { writeFileSync } = require('node:fs');
const { bootstrap } = require('./bootstrap');

async function main() {
  bootstrap();
  const { tableOf } = require('./start/result');
  const { runTrainings } = require('./start/trainings');
  const { parseStartOptions } = require('./train/digits-options');
  const options = parseStartOptions(process.argv.slice(2));
  const { exitCode, result: measured } = await runTrainings(options, process.stdout);
  process.exitCode = exitCode;
  if (measured === undefined) return;
  const result = { ...measured, totalSeconds: performance.now() / 1000 }; // since the command began
  console.log(`\n${tableOf(result).join('\n')}`);
  if (options.json === undefined) return;
  writeFileSync(options.json, `${JSON.stringify(result, null, 2)}\n`);
  console.log(`\nwritten to ${options.json}`);
}

main().catch(error => {
  console.error(`${error.code ?? ''} ${error.message}`.trim());
  process.exitCode = 1;
});
