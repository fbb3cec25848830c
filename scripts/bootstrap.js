// Prepares a fresh clone: installs the dependencies of package-lock.json, and builds. It does only what is missing, so
// the second time it takes almost no time. It needs only Node and npm.
const { execFileSync } = require('node:child_process');
const { createHash } = require('node:crypto');
const { existsSync, lstatSync, readdirSync, readFileSync, statSync, writeFileSync } = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..');

/** Installs and builds what is missing or out of date. Ends the process if either fails. */
function bootstrap() {
  install();
  stage('Building', 'dist/.gradring-built', ['src', 'tsconfig.json', 'package-lock.json', 'scripts/build.js'], () => {
    execFileSync(process.execPath, [path.join(__dirname, 'build.js')], { cwd: root, stdio: 'inherit' });
  });
}

/** Installs what is missing or out of date. Ends the process if that fails, or on a Node that is too old. */
function install() {
  requireNode();
  if (isLink('node_modules')) return; // `npm ci` would empty the folder behind the link, which other clones may use
  stage(
    'Installing the dependencies (npm ci)',
    'node_modules/.gradring-installed',
    ['package.json', 'package-lock.json'],
    () => {
      const npm = process.env.npm_execpath;
      const [command, args] = npm?.endsWith('npm-cli.js') ? [process.execPath, [npm]] : ['npm', []];
      execFileSync(command, [...args, 'ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'], {
        cwd: root,
        stdio: 'inherit',
      });
    },
  );
}

function isLink(file) {
  return lstatSync(path.join(root, file), { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

/** Runs a stage, unless its stamp says that it has run for exactly these files. */
function stage(title, stamp, inputs, run) {
  const stampFile = path.join(root, stamp);
  const wanted = hashOf(inputs);
  if (existsSync(stampFile) && readFileSync(stampFile, 'utf8') === wanted) return;
  console.error(`${title} …`);
  const start = Date.now();
  try {
    run();
  } catch (error) {
    console.error(`${title} failed: ${error.message}`);
    process.exit(1);
  }
  writeFileSync(stampFile, wanted);
  console.error(`${title}: done in ${((Date.now() - start) / 1000).toFixed(1)} s`);
}

function hashOf(inputs) {
  const hash = createHash('sha256');
  const add = file => {
    const full = path.join(root, file);
    if (statSync(full).isDirectory()) for (const name of readdirSync(full).sort()) add(path.join(file, name));
    else hash.update(`${file}\0`).update(readFileSync(full)).update('\0');
  };
  for (const input of inputs) add(input);
  return hash.digest('hex');
}

/** `engines.node` is a list of `^MAJOR.MINOR`. */
function requireNode() {
  const { engines } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  const [major, minor] = process.versions.node.split('.').map(Number);
  const fits = engines.node.split('||').some(range => {
    const [wantedMajor, wantedMinor] = range.match(/\d+/g).map(Number);
    return major === wantedMajor && minor >= wantedMinor;
  });
  if (fits) return;
  console.error(`gradring needs Node ${engines.node}; this is ${process.versions.node}.`);
  process.exit(1);
}

module.exports = { bootstrap, install };

if (require.main === module) bootstrap();
