// Type-checks a program of the project in the working directory, as a user's compiler would, once for each way of
// finding modules. Prints what it complains of, by way, as JSON. In one process: loading the compiler for each takes as
// long as the check.
const path = require('node:path');
const ts = require('typescript');

const { ES2022, ESNext, CommonJS, Node16 } = { ...ts.ScriptTarget, ...ts.ModuleKind };
const WAYS = {
  node16: { module: Node16, moduleResolution: ts.ModuleResolutionKind.Node16 },
  bundler: { module: ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler },
  node10: { module: CommonJS, moduleResolution: ts.ModuleResolutionKind.Node10 },
};

/** @returns {string} What the compiler says of the file; nothing if it is right. */
function complaints(file, way) {
  const common = { noEmit: true, strict: true, target: ES2022, skipLibCheck: true, types: ['node'] };
  const program = ts.createProgram([file], { ...common, ...way });
  const host = { getCurrentDirectory: () => process.cwd(), getCanonicalFileName: name => name, getNewLine: () => '\n' };
  return ts.formatDiagnostics(ts.getPreEmitDiagnostics(program), host);
}

const file = path.resolve(process.argv[2]);
console.log(
  JSON.stringify(Object.fromEntries(Object.entries(WAYS).map(([name, way]) => [name, complaints(file, way)]))),
);
