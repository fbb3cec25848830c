// Loads the parts of test/ that are TypeScript and run without Jest: the fuzzer, chaos and the soak. They are compiled,
// without a check of types, to dist/.harness, which git ignores and the package leaves out. So the hundreds of
// processes of a chaos round start as fast as plain JavaScript, and they use the product as it was built.
const { mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } = require('node:fs');
const path = require('node:path');

const SOURCES = path.join(__dirname, '../test');
const COMPILED = path.join(__dirname, '../dist/.harness');
const FOLDERS = ['chaos', 'fuzz', 'kernels', 'operations', 'soak'];

let isCompiled = false;

/** Loads a module of the harness, such as `fuzz/fuzz`. */
function harness(name) {
  if (!isCompiled) FOLDERS.forEach(compileFolder);
  isCompiled = true;
  return require(path.join(COMPILED, name));
}

function compileFolder(folder) {
  mkdirSync(path.join(COMPILED, folder), { recursive: true });
  const names = readdirSync(path.join(SOURCES, folder)).filter(name => /(?<!\.test)\.ts$/.test(name));
  for (const name of names) {
    const source = path.join(SOURCES, folder, name);
    const compiled = path.join(COMPILED, folder, name.replace(/\.ts$/, '.js'));
    if (!isNewer(compiled, source)) compile(source, compiled);
  }
}

function isNewer(file, than) {
  return (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) > statSync(than).mtimeMs;
}

/**
 * Imports of `src/` become imports of `dist/`, as in Jest. The file is renamed when complete, as others may read it.
 */
function compile(source, compiled) {
  const ts = require('typescript'); // loaded only here: it takes long, and usually everything is compiled already
  const { outputText } = ts.transpileModule(readFileSync(source, 'utf8'), {
    fileName: source,
    compilerOptions: { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022, esModuleInterop: true },
  });
  const part = `${compiled}.${process.pid}`;
  writeFileSync(part, outputText.replaceAll('"../../src/', '"../../').replaceAll("'../../src/", "'../../"));
  renameSync(part, compiled);
}

module.exports = { harness };
