import type { Target } from './fuzz';
import type { PayloadChecker } from './payload-checker';

export function gradientPayloadTarget(checker?: Pick<PayloadChecker, 'check' | 'trace'>): Target;
