export function strike(run: object, fault: object): Promise<boolean>;
