-- reads: nothing
-- writes: is_accelerator(resource), whether a resource (as kube-state-metrics names it) is a GPU or another accelerator that is attributed
-- invariant: the one place that lists them
CREATE OR REPLACE TEMP MACRO is_accelerator(resource) AS
    resource SIMILAR TO '(nvidia_com_gpu|nvidia_com_mig_|amd_com_gpu|habana_ai_gaudi|aws_amazon_com_neuron).*';
