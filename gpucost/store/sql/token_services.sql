-- reads: bill_details, bills
-- writes: token_services (temporary): details of bill rows (batch_id, detail_id) of services that sell tokens, and perhaps machines, speech and more
-- invariant: each once; uses only cheap conditions, because many bills have no tokens
CREATE OR REPLACE TEMP TABLE token_services AS
SELECT d.batch_id, d.detail_id
FROM bill_details AS d
JOIN bills AS b USING (bill_id)
WHERE CASE b.provider
    WHEN 'aws' THEN d.service_code IN ('AmazonBedrock', 'AmazonBedrockService', 'AmazonBedrockFoundationModels')
        OR d.service_name IN ('Amazon Bedrock', 'Amazon Bedrock Service', 'Amazon Bedrock Foundation Models') OR suffix(d.service_name, '(Amazon Bedrock Edition)')
    WHEN 'gcp' THEN d.service_name IN ('Gemini API', 'Generative Language API', 'Vertex AI') OR starts_with(d.service_name, 'Claude ')
    WHEN 'azure' THEN d.service_name IN ('Azure OpenAI', 'Azure OpenAI Service', 'Foundry Models', 'Cognitive Services', 'Azure AI Services', 'Azure AI Foundry', 'Azure AI Foundry Models')
        OR contains(d.sku_description, 'inference-')
    ELSE d.service_category = 'AI and Machine Learning' OR starts_with(b.provider, 'openai') OR starts_with(b.provider, 'anthropic') OR contains(lower(coalesce(d.consumed_unit, d.pricing_unit)), 'token') END;
