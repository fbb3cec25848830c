import { ARRAYS } from './arrays';
import type { Case } from './case';
import { CONVOLUTIONS } from './convolutions';
import { ELEMENTWISE } from './elementwise';
import { IMAGES } from './images';
import { LAYERS } from './layers';
import { PRODUCTS } from './products';
import { REDUCTIONS } from './reductions';

export const OPERATIONS: Readonly<Record<string, readonly Case[]>> = {
  ...ELEMENTWISE,
  ...REDUCTIONS,
  ...ARRAYS,
  ...PRODUCTS,
  ...CONVOLUTIONS,
  ...IMAGES,
  ...LAYERS,
};

/** The other operations of TensorFlow.js, and why they are not compared. */
export const NOT_COMPARED: Readonly<Record<string, readonly string[]>> = {
  'They make tensors of no others.': [
    'buffer', 'eye', 'linspace', 'ones', 'range', 'scalar', 'tensor', 'tensor1d', 'tensor2d', 'tensor3d', 'tensor4d',
    'tensor5d', 'tensor6d', 'variable', 'zeros',
  ],
  'They draw random numbers.': [
    'multinomial', 'rand', 'randomGamma', 'randomNormal', 'randomStandardNormal', 'randomUniform', 'randomUniformInt',
    'truncatedNormal', 'layers.alphaDropout', 'layers.gaussianDropout', 'layers.gaussianNoise', 'layers.randomWidth',
  ],
  'They take or give whole numbers, strings or arrays.': [
    'bitwiseAnd', 'booleanMaskAsync', 'broadcastArgs', 'image.nonMaxSuppression', 'image.nonMaxSuppressionAsync',
    'image.nonMaxSuppressionPadded', 'image.nonMaxSuppressionPaddedAsync', 'image.nonMaxSuppressionWithScore',
    'image.nonMaxSuppressionWithScoreAsync', 'inTopKAsync', 'layers.categoryEncoding', 'lowerBound', 'raggedGather',
    'raggedRange', 'raggedTensorToTensor', 'searchSorted', 'setdiff1dAsync', 'sparse.sparseFillEmptyRows',
    'sparse.sparseReshape', 'string.staticRegexReplace', 'string.stringNGrams', 'string.stringSplit',
    'string.stringToHashBucketFast', 'upperBound', 'whereAsync',
  ],
  'They are in those that are compared.': [
    'enclosingPowerOfTwo', 'fft', 'ifft', 'irfft', 'movingAverage', 'print', 'rfft', 'layers.avgPool1d',
    'layers.avgPool2d', 'layers.avgPool3d', 'layers.avgPooling1d', 'layers.avgPooling2d', 'layers.avgPooling3d',
    'layers.convLstm2dCell', 'layers.globalMaxPool1d', 'layers.globalMaxPool2d', 'layers.gruCell', 'layers.input',
    'layers.inputLayer', 'layers.lstmCell', 'layers.maxPool1d', 'layers.maxPool2d', 'layers.simpleRNNCell',
    'layers.stackedRNNCells',
  ],
}; // prettier-ignore
