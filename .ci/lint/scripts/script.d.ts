// What the engine has from its host.
declare var handrailStep: any, handrailLog: any, handrailSleep: any, handrailTell: any, handrailKeep: any;
interface PropertyDescriptor { __proto__?: any }
