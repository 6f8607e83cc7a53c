export const endpointStates = ['active', 'failing', 'paused', 'suspended'] as const;
export type EndpointState = (typeof endpointStates)[number];
