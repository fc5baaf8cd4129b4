// Chrome's own, and the function by which the page tells its node.
declare const MediaStreamTrackProcessor: any;
declare const handrailSay: (text: string) => void;
