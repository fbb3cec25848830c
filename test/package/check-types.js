// Type-checks a program of the project in the working directory, as a user's compiler would, once for each way of
// finding modules, and once with the declarations of its packages, without the types of a browser. Prints what the
// compiler complains of, by way, as JSON. In one process: loading the compiler for each takes as long as the check.
const path = require('node:path');
const ts = require('typescript');

const { ES2022, ESNext, CommonJS, Node16 } = { ...ts.ScriptTarget, ...ts.ModuleKind };
const WAYS = {
  node16: { module: Node16, moduleResolution: ts.ModuleResolutionKind.Node16 },
  bundler: { module: ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler },
  // TypeScript 6 refuses this way, which is to go with TypeScript 7, unless told otherwise. Programs still use it.
  node10: { module: CommonJS, moduleResolution: ts.ModuleResolutionKind.Node10, ignoreDeprecations: '6.0' },
  'full check without dom': {
    ...{ module: Node16, moduleResolution: ts.ModuleResolutionKind.Node16 },
    ...{ lib: ['lib.es2022.d.ts'], skipLibCheck: false },
  },
};

/** TensorFlow.js's types, and those of WebGPU that they name. They fail the full check by themselves, also with dom. */
const TENSORFLOW_TYPES = /\/node_modules\/@(tensorflow|webgpu)\//;

/** @returns {string} What the compiler says of the file; nothing if it is right. */
function complaints(file, way) {
  const common = { noEmit: true, strict: true, target: ES2022, skipLibCheck: true, types: ['node'] };
  const program = ts.createProgram([file], { ...common, ...way });
  const host = { getCurrentDirectory: () => process.cwd(), getCanonicalFileName: name => name, getNewLine: () => '\n' };
  const complaints = ts
    .getPreEmitDiagnostics(program)
    .filter(({ file }) => !TENSORFLOW_TYPES.test(file?.fileName ?? ''));
  return ts.formatDiagnostics(complaints, host);
}

const file = path.resolve(process.argv[2]);
console.log(
  JSON.stringify(Object.fromEntries(Object.entries(WAYS).map(([name, way]) => [name, complaints(file, way)]))),
);
