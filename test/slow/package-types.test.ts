/** @jest-environment node */ // TypeScript wants the Array of its own realm.
import path from 'node:path';
import ts from 'typescript';

const DIST = path.join(__dirname, '../../dist');

function programOf(entry: string): ts.Program {
  return ts.createProgram([path.join(DIST, entry)], {
    ...{ module: ts.ModuleKind.Node16, moduleResolution: ts.ModuleResolutionKind.Node16 },
    ...{ target: ts.ScriptTarget.ES2022, lib: ['lib.es2022.d.ts'], types: ['node'], strict: true, noEmit: true },
  });
}

test.each(['index.d.ts', 'core.d.ts'])('%s passes the full check of a program for Node, without a browser', entry => {
  const program = programOf(entry);
  const complaints = ts
    .getPreEmitDiagnostics(program)
    .map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`);
  // TensorFlow.js's types, and those of WebGPU that they name, need a browser's and fail such a check by themselves.
  expect(complaints.filter(words => !/node_modules\/@(tensorflow|webgpu)\//.test(words))).toEqual([]);
});

test('the types of gradring/core name nothing of TensorFlow.js', () => {
  const filesOf = (entry: string) =>
    programOf(entry)
      .getSourceFiles()
      .map(({ fileName }) => fileName);
  const ofTensorFlow = (file: string) => /\/node_modules\/@tensorflow\/|\/dist\/tensorflow\//.test(file);
  expect(filesOf('index.d.ts').some(ofTensorFlow)).toBe(true);
  expect(filesOf('core.d.ts').filter(ofTensorFlow)).toEqual([]);
});
