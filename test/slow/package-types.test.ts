/** @jest-environment node */ // TypeScript wants the Array of its own realm.
import path from 'node:path';
import ts from 'typescript';

const DIST = path.join(__dirname, '../../dist');

test('the types pass the full check of a program for Node, without the types of a browser', () => {
  const program = ts.createProgram([path.join(DIST, 'index.d.ts')], {
    ...{ module: ts.ModuleKind.Node16, moduleResolution: ts.ModuleResolutionKind.Node16 },
    ...{ target: ts.ScriptTarget.ES2022, lib: ['lib.es2022.d.ts'], types: ['node'], strict: true, noEmit: true },
  });
  const complaints = ts
    .getPreEmitDiagnostics(program)
    .map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`);
  // TensorFlow.js's types, and those of WebGPU that they name, need a browser's and fail such a check by themselves.
  expect(complaints.filter(words => !/node_modules\/@(tensorflow|webgpu)\//.test(words))).toEqual([]);
});
